"""Reports come to their topic, also those that the broker does not take at once."""

import json
from types import SimpleNamespace
from typing import Any

from ottla.client.errors import RequestTimedOutError
from ottla.pipelines.audit.listener import LAST_MS, AuditListener
from ottla.pipelines.audit.report import Report
from ottla.runtime.clock import ManualClock


def progressed(batch: int) -> Any:
    progress = {
        "id": "q",
        "runId": "r",
        "name": "flights.delays",
        "timestamp": "2013-06-01T00:00:30.500Z",
        "batchId": batch,
        "numInputRows": 19,
        "durationMs": {"addBatch": 5},
        "sources": [],
    }
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress)))


class Topic:
    """Takes reports, except for the calls that are named."""

    def __init__(self, failing: range) -> None:
        self.batches: list[int] = []
        self._failing = failing
        self._calls = 0

    def __call__(self, report: Report) -> None:
        self._calls += 1
        if self._calls - 1 in self._failing:
            raise RequestTimedOutError("the broker is busy")
        self.batches.append(report.batch)


def test_the_last_report_is_tried_until_the_broker_takes_it():
    # The last micro-batch is the second one; the topic is away for it, and for the first tries at the end.
    topic, clock = Topic(range(1, 6)), ManualClock(0)
    listener = AuditListener("flights", 60_000, topic)
    listener.onQueryProgress(progressed(0))
    listener.onQueryProgress(progressed(1))
    assert topic.batches == [0]
    assert listener.finish(clock, lambda seconds: clock.advance(round(seconds * 1000))) == 0
    assert topic.batches == [0, 1]


def test_a_topic_that_stays_away_holds_up_the_end_for_a_minute_and_the_loss_is_said(caplog):
    topic, clock = Topic(range(1, 1_000_000)), ManualClock(0)
    listener = AuditListener("flights", 60_000, topic)
    for batch in range(3):
        listener.onQueryProgress(progressed(batch))
    assert listener.finish(clock, lambda seconds: clock.advance(round(seconds * 1000))) == 2
    assert LAST_MS <= clock.monotonic_ms() < LAST_MS + 1_000
    assert topic.batches == [0]
    assert caplog.messages[-1] == (
        "audit of flights: 2 reports are lost, the first of batch 1 of sink delays: the broker did not take them"
    )
