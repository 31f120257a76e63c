"""Rounds, one after the other, for as long as is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from races.report import Finding, Report, excerpt
from races.round import RoundKind, RoundResult, run_round
from tests.broker_process import BrokerProcess

ROUND_S = 12.0
PLAN = (
    RoundKind.KILL,
    RoundKind.CALM,
    RoundKind.RESTART,
    RoundKind.CALM,
    RoundKind.CALM,
    RoundKind.KILL,
    RoundKind.CALM,
)
"""What is done to the broker in one round after the other; from the start again at the end."""

FLUSH_BEFORE_ACK = "log.flush.before.ack"
"""Turned over by each round that ends the broker: where nothing is flushed first, requests go other ways."""

BROKER_SETTINGS = {
    FLUSH_BEFORE_ACK: "true",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "300",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "700",
    "offsets.topic.num.partitions": "3",
}


async def run(
    directory: Path,
    seconds: float,
    seed: int,
    on_round: Callable[[RoundResult], None],
    broker_path: str | None = None,
) -> Report:
    """Race for `seconds`, and until the round that is then under way has ended.

    `broker_path` is where the broker's Python finds Ottla, when that is not where ours does. Raises what an actor died
    of, and when the broker does not start.
    """
    report = Report(seed)
    environment = {} if broker_path is None else {"PYTHONPATH": broker_path}
    broker = BrokerProcess(directory / "data", dict(BROKER_SETTINGS), log_dir=directory, environment=environment)
    begun_at = time.monotonic()
    memory_mib: list[float] = []
    broker.start()
    try:
        number = 0
        while (left_s := begun_at + seconds - time.monotonic()) > 0:
            kind = PLAN[number % len(PLAN)]
            if kind is not RoundKind.CALM:
                broker.settings[FLUSH_BEFORE_ACK] = str(broker.settings[FLUSH_BEFORE_ACK] != "true").lower()
            result = await run_round(broker, seed, number, kind, min(ROUND_S, max(left_s, 3.0)), memory_mib)
            report.add(result, time.monotonic() - begun_at)
            for violation in result.violations:
                report.findings.append(
                    Finding(number, violation, violation.at - begun_at, excerpt(result.history, violation))
                )
            on_round(result)
            number += 1
        report.seconds = time.monotonic() - begun_at
        code = broker.stop()
        if code != 0:
            report.problems.append(f"the broker ended with {code}")
    finally:
        broker.kill()
    return report
