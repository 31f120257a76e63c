"""A `state` step with a time: its processor sees times, watermark and timers of any year."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.report import decode_report
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

FILE = """
name = "years"
checkpoints = "checkpoints"

[sources.events]
topics = ["years.events"]
format = "json"
schema = "id string, at timestamp"

[[steps]]
name = "once"
deduplicate = { by = ["id", "at"], within = "1 hour", time = "at" }

[[steps]]
name = "kept"
[steps.state]
python = "kept:Kept"
by = ["id"]
schema = "id string, what string, rows bigint, columns string, watermark string, due string"
time = "at"
late = "1 hour"

[[sinks]]
name = "out"
topic = "years.out"

[audit]
topic = "years.audit"
"""
KEPT = '''
from datetime import datetime, timedelta

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

HOUR = 3_600_000
EPOCH = datetime(1970, 1, 1)


def text(ms):
    return (EPOCH + timedelta(milliseconds=ms)).isoformat()


class Kept(StatefulProcessor):
    """Counts rows of a key, and says so an hour after the watermark, or 60 hours after the first time there is."""

    def init(self, handle):
        self._handle = handle
        self._rows = handle.getValueState("rows", "rows bigint")

    def handleInputRows(self, key, rows, timerValues):
        found = [*rows]
        before = self._rows.get()[0] if self._rows.exists() else 0
        self._rows.update((before + len(found),))
        watermark = timerValues.getCurrentWatermarkInMs()
        self._handle.registerTimer(watermark + HOUR)
        self._handle.registerTimer(watermark + 2 * HOUR)
        self._handle.deleteTimer(watermark + 2 * HOUR)
        timers = [text(each) for each in self._handle.listTimers()]
        columns = ",".join(name for name in found[0].__fields__ if name != "_record")
        rows, due = before + len(found), str(timers)
        yield Row(id=key[0], what="rows", rows=rows, columns=columns, watermark=text(watermark), due=due)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        due, watermark = expiredTimerInfo.getExpiryTimeInMs(), timerValues.getCurrentWatermarkInMs()
        rows = self._rows.get()[0]
        yield Row(id=key[0], what="timer", rows=rows, columns=None, watermark=text(watermark), due=text(due))

    def close(self):
        pass
'''


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.mark.long
def test_a_processor_sees_rows_watermark_and_timers_before_1970(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("years.events", "years.out", "years.audit")
    (tmp_path / "kept.py").write_text(KEPT)
    file = tmp_path / "years.toml"
    file.write_text(FILE)
    spec = read(file)

    def sent(*rows: tuple[str, str]) -> list[dict[str, str]]:
        """What a run says of the rows; watermarks in the progress are not shifted, either."""
        there.produce("years.events", [json.dumps({"id": name, "at": at}).encode() for name, at in rows])
        outcome, events = run(session, spec, there)
        assert outcome.failed == []
        return events

    sent(("a", "0001-01-01T00:00:00Z"), ("a", "0001-01-01T00:00:00Z"), ("b", "1959-06-01T10:00:00Z"))
    sent(("a", "1959-06-01T08:00:00Z"), ("c", "1959-06-01T09:30:00Z"))
    events = sent(("d", "2013-06-01T10:00:00Z"))
    assert [each["watermark"] for each in events if each["event"] == "batch"][-1] == "2013-06-01T09:00:00.000Z"
    out = [json.loads(message.value()) for message in there.consume("years.out")]
    first, ninth = "0001-01-01T01:00:00", "1959-06-01T10:00:00"
    assert sorted((row["id"], row["what"], row["rows"], row["watermark"], row["due"]) for row in out) == [
        ("a", "rows", 1, "0001-01-01T00:00:00", f"['{first}']"),
        ("a", "timer", 1, "1959-06-01T09:00:00", first),
        ("b", "rows", 1, "0001-01-01T00:00:00", f"['{first}']"),
        ("b", "timer", 1, "1959-06-01T09:00:00", first),
        ("c", "rows", 1, "1959-06-01T09:00:00", f"['{ninth}']"),
        ("c", "timer", 1, "2013-06-01T09:00:00", ninth),
        ("d", "rows", 1, "1959-06-01T09:00:00", f"['{ninth}']"),
        ("d", "timer", 1, "2013-06-01T09:00:00", ninth),
    ]
    assert {row["columns"] for row in out if row["what"] == "rows"} == {"id,at"}
    balance = balance_of(decode_report(message.value()) for message in there.consume("years.audit"))
    assert balance.findings == []
    assert {
        (total.step, reason): rows for total in balance.totals for reason, rows in total.dropped.items() if rows
    } == {
        ("once", "duplicate"): 1,
        ("once", "late"): 1,
    }
