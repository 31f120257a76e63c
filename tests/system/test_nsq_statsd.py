"""A running broker that sends its statistics to a statsd daemon."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address

LINE = re.compile(r"nsq\.(\w+)\.topic\.clicks\.([\w.]+):(\d+)\|([cg])")


def test_statsd_is_told_of_topics_and_channels(tmp_path: Path) -> None:
    daemon = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    daemon.bind(("127.0.0.1", 0))
    daemon.settimeout(60)
    settings = {
        **LISTENERS,
        "nsq.statsd.address": f"127.0.0.1:{daemon.getsockname()[1]}",
        "nsq.statsd.interval.ms": "1000",
        "nsq.broadcast.address": "a.host",
    }
    counters: Counter[str] = Counter()
    gauges: dict[str, int] = {}
    with daemon, BrokerProcess(tmp_path / "data", settings) as broker:
        client = NsqClient(address(broker))
        client.publish("clicks", b"m0", b"m1", b"m2")
        reader = NsqClient(address(broker)).subscribe("clicks", "archive", 1)
        reader.message()
        told = {"depth": 2, "in_flight_count": 1, "clients": 1}
        end = time.monotonic() + 60
        # A report is of several packets.
        while counters["message_count"] < 3 or any(gauges.get(f"channel.archive.{k}") != n for k, n in told.items()):
            assert time.monotonic() < end, (counters, gauges)
            packet = daemon.recv(65536)
            assert len(packet) <= 508
            for line in packet.decode().splitlines():
                found = LINE.fullmatch(line)
                assert found is not None, line
                assert found[1].startswith("a_host_")
                if found[4] == "c":
                    counters[found[2]] += int(found[3])
                else:
                    gauges[found[2]] = int(found[3])
    assert counters["message_count"] == 3
