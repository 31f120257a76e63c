"""What a broker's process takes, as the system counts it."""

from __future__ import annotations

from pathlib import Path

from tests.broker_process import BrokerProcess


def peak_mib(broker: BrokerProcess) -> float:
    """The most memory it ever had resident (VmHWM)."""
    return _kib(broker, "status", "VmHWM:") / 1024


def pss_mib(broker: BrokerProcess) -> float:
    """What it has now, shared pages counted in parts (PSS)."""
    return _kib(broker, "smaps_rollup", "Pss:") / 1024


def own_mib(broker: BrokerProcess) -> float:
    """What it has now that is in no file: what it shares of those is the less the more other brokers run."""
    return _kib(broker, "smaps_rollup", "Anonymous:") / 1024


def _kib(broker: BrokerProcess, file: str, name: str) -> int:
    assert broker.process is not None
    for line in Path(f"/proc/{broker.process.pid}/{file}").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"no {name} in {file}")
