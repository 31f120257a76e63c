"""Times, nulls and tombstones of a running pipeline: each row goes out, is a letter, or is counted as dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.cli import pipeline_run
from ottla.cli.main import run as run_command
from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.report import decode_report
from ottla.pipelines.compiler.sources import AHEAD
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from ottla.pipelines.tables import ParquetTable
from ottla.pipelines.testing import run_tests
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run
from tests.waiting_lines import without_waiting

FILE = """
name = "times"
checkpoints = "checkpoints"

[sources.events]
topics = ["times.events"]
format = "json"
json = { mode = "lenient" }
schema = "id string, at timestamp, day date, carrier string"
tombstones = "skip"
metadata = { place = "offset", from_partition = "partition", written = "timestamp", more = "headers" }

[sources.counted]
topics = ["times.counted"]
format = "json"
json = { mode = "lenient" }
schema = "id string, at timestamp, in struct<at: timestamp, all: array<timestamp>>"
timestamps = "milliseconds"
tombstones = "row"
key = "name"

[[steps]]
name = "once"
input = "events"
deduplicate = { by = ["id"], within = "1 hour", time = "at" }

[[steps]]
name = "hourly"
input = "events"
window = { time = "at", every = "1 hour", late = "1 hour", late_rows = "dead-letter", aggregate = { n = "count(*)" } }

[[sinks]]
name = "out"
input = "once"
topic = "times.out"

[[sinks]]
name = "lake"
input = "once"
parquet = "lake"
partition_by = ["carrier"]

[[sinks]]
name = "hours"
input = "hourly"
topic = "times.hours"

[[sinks]]
name = "counted_out"
input = "counted"
topic = "times.counted.out"

[dead_letters]
topic = "times.dead"

[audit]
topic = "times.audit"

[[tests]]
name = "what production would drop"
given.events = [
  { id = "a", at = "2013-06-01T10:00:00Z" },
  { id = "b", at = 1370080800000 },
  { id = "c", at = "10:00" },
  { id = "d", at = "2999-01-01T00:00:00Z" },
  { id = "e" },
  { id = "f", at = "2013-06-01T03:00:00Z" },
  { id = "a", at = "2013-06-01T10:00:00Z" },
]
expect.once = [{ id = "a" }, { id = "f" }]
dead_letters = [{ step = "events" }, { step = "events" }, { step = "events" }]
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def events(*rows: dict[str, Any] | None) -> list[bytes | None]:
    return [None if row is None else json.dumps(row).encode() for row in rows]


@pytest.mark.long
def test_no_row_vanishes_uncounted_whatever_its_time(session: Session, broker: BrokerProcess, tmp_path: Path):
    there = Broker(broker.bootstrap)
    names = ("events", "counted", "out", "hours", "counted.out", "dead", "audit")
    there.create(*(f"times.{name}" for name in names))
    file = tmp_path / "times.toml"
    file.write_text(FILE)
    spec = read(file)
    (tested,) = run_tests(spec, session.spark, drops=True)
    ahead = f"at is 2999-01-01 00:00:00, {AHEAD}: ahead = 86400 s"
    assert (tested.name, tested.differences) == (spec.tests[0].name, ())
    assert [str(each) for each in tested.drops] == [
        f"events: production sets 3 rows aside: dead letter: {ahead}; others for other reasons",
        "once: production drops 1 row: duplicate",
        "once: production drops 1 row: late if they come in a micro-batch after the newest row",
        "once: production drops 1 row: no time",
        "hourly: production sets 1 row aside: dead letter: late if they come in a micro-batch after the newest row",
        "hourly: production drops 1 row: no time",
    ]
    soon = f"{datetime.now(UTC) + timedelta(hours=48):%Y-%m-%dT%H:%M:%SZ}"
    old = "1979-06-01T10:{}:00.123456Z"
    there.produce(
        "times.events",
        events(
            {"id": "old", "at": old.format("00"), "carrier": ""},
            {"id": "old", "at": old.format("00"), "carrier": ""},
            {"id": None, "at": old.format("01"), "carrier": None},
            {"id": None, "at": old.format("01"), "carrier": None},
            {"id": "timeless", "carrier": "UA"},
            {"id": "number", "at": 1774692000000},
            {"id": "clock", "at": "10:00"},
            {"id": "soon", "at": soon},
            {"id": "years", "at": "12013-06-01T10:00:00Z"},
            {"id": "before", "at": "1959-06-01T10:00:00Z", "carrier": "ZZ"},
            {"id": "first", "at": "0001-01-01T00:00:00Z", "carrier": "ZZ"},
            {"id": "first", "at": "0001-01-01T00:30:00Z", "carrier": "ZZ"},
            {"id": "day", "at": old.format("02"), "day": 15706},
            None,
        ),
    )
    there.produce(
        "times.counted",
        events(
            {"id": "n", "at": 1774692000123, "in": {"at": -1, "all": [0, "2013-06-01T10:00:00.5+02:00"]}},
            {"id": "far", "at": 99999999999999999},
            {"id": "deep", "in": {"all": [1, "today"]}},
            None,
        ),
        ["k", "k", "k", "gone"],
    )
    outcome, _ = run(session, spec, there)
    assert outcome.failed == []
    out = [json.loads(message.value()) for message in there.consume("times.out")]
    assert sorted((row["id"] or "", row["at"], row["place"], row["more"]) for row in out) == [
        ("", "1979-06-01T10:01:00.123456Z", 2, None),
        ("", "1979-06-01T10:01:00.123456Z", 3, None),
        ("before", "1959-06-01T10:00:00.000000Z", 9, None),
        ("first", "0001-01-01T00:00:00.000000Z", 10, None),
        ("old", "1979-06-01T10:00:00.123456Z", 0, None),
    ]
    assert {row["from_partition"] for row in out} == {0}
    assert all(abs(datetime.now(UTC) - datetime.fromisoformat(row["written"])) < timedelta(hours=1) for row in out)
    reasons = {
        json.loads(message.value())["id"]: letter_of(message.headers()).reason
        for message in there.consume("times.dead")
    }
    assert reasons.pop("soon").endswith("too far ahead of the clock: ahead = 86400 s")
    assert reasons == {
        "number": (
            'at is the number 1774692000000: say timestamps = "seconds", "milliseconds" or "microseconds" in the source'
        ),
        "clock": "at is not a time: '10:00'; it must have a date of the years 1 to 9999",
        "years": "at is not a time: '12013-06-01T10:00:00Z'; it must have a date of the years 1 to 9999",
        "day": "day is the number 15706: write a date of the years 1 to 9999, as in 2013-06-01",
        "far": "at is the number 99999999999999999: in milliseconds it is outside of the years 1 to 9999",
        "deep": "in.all: a time in it cannot be read; it must have a date of the years 1 to 9999",
    }
    counted = [json.loads(message.value()) for message in there.consume("times.counted.out")]
    assert counted == [
        {
            "name": "k",
            "id": "n",
            "at": "2026-03-28T10:00:00.123000Z",
            "in": {
                "at": "1969-12-31T23:59:59.999000Z",
                "all": ["1970-01-01T00:00:00.000000Z", "2013-06-01T08:00:00.500000Z"],
            },
        },
        {"name": "gone", "id": None, "at": None, "in": None},
    ]
    table = ParquetTable.open(spec.path("lake"))
    assert sorted(str(row.carrier) for row in table.read(session.spark).select("carrier").collect()) == [
        "",
        "None",
        "None",
        "ZZ",
        "ZZ",
    ]
    # What comes behind the watermark is dropped, and counted.
    there.produce("times.events", events({"id": "newer", "at": "1989-06-01T10:00:00Z", "carrier": "UA"}))
    run(session, spec, there)
    there.produce("times.events", events({"id": "behind", "at": "1988-06-01T10:00:00Z", "carrier": "UA"}))
    run(session, spec, there)
    assert [json.loads(message.value())["id"] for message in there.consume("times.out")].count("behind") == 0
    hours = [json.loads(message.value()) for message in there.consume("times.hours")]
    # Windows that are complete at once come in any order: each task has some.
    assert sorted((row["window_start"], row["window_end"], row["n"]) for row in hours) == [
        ("0001-01-01T00:00:00.000000Z", "0001-01-01T01:00:00.000000Z", 2),
        ("1959-06-01T10:00:00.000000Z", "1959-06-01T11:00:00.000000Z", 1),
        ("1979-06-01T10:00:00.000000Z", "1979-06-01T11:00:00.000000Z", 4),
    ]
    balance = balance_of(decode_report(message.value()) for message in there.consume("times.audit"))
    assert balance.findings == []
    dropped: dict[tuple[str, str], dict[str, int]] = {}
    for total in balance.totals:
        for reason, rows in total.dropped.items():
            found = dropped.setdefault((total.sink, total.step), {})
            found[reason] = found.get(reason, 0) + rows
    assert dropped == {
        ("out", "events"): {"tombstone": 1},
        ("out", "once"): {"no time": 1, "duplicate": 2, "late": 1},
        ("lake", "events"): {"tombstone": 1},
        ("lake", "once"): {"no time": 1, "duplicate": 2, "late": 1},
        ("hours", "events"): {"tombstone": 1},
        ("hours", "hourly"): {"no time": 1},
    }
    letters = [letter_of(message.headers()) for message in there.consume("times.dead")]
    assert [each.reason for each in letters if each.step == "hourly"] == [
        "late: at is 1988-06-01 10:00:00, and the watermark 1989-06-01 09:00:00"
    ]


@pytest.mark.long
def test_inspect_says_what_production_would_drop_of_the_rows_that_it_shows(
    session: Session,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    @contextmanager
    def spark_session(*_: object) -> Iterator[SparkSession]:
        yield session.spark

    monkeypatch.setattr(pipeline_run, "spark_session", spark_session)
    there = Broker(broker.bootstrap)
    there.create("looked.events", "looked.counted")
    file = tmp_path / "looked.toml"
    file.write_text(FILE.replace("times.", "looked."))
    at = "2013-06-01T{}:00:00Z"
    there.produce(
        "looked.events",
        events(
            {"id": "older", "at": at.format("01")},
            {"id": "a", "at": at.format("10")},
            {"id": "a", "at": at.format("10")},
            {"id": "number", "at": 1370080800000},
            {"id": "timeless"},
            {"id": "ahead", "at": "2999-01-01T00:00:00Z"},
            {"id": "b", "at": at.format("03")},
            {"id": "before", "at": "1959-06-01T10:00:00Z"},
        ),
    )

    def inspected(*arguments: str) -> tuple[list[dict[str, Any]], list[str]]:
        command = ["pipeline", "inspect", str(file), *arguments, "--json", "-b", there.bootstrap]
        capsys.readouterr()
        code = run_command(command)
        said = capsys.readouterr()
        assert code == 0, said
        return [json.loads(line) for line in said.out.splitlines()], without_waiting(said.err).splitlines()

    refused = "events: production sets 2 rows aside: dead letter: at is "
    rows, said = inspected("once")
    assert sorted(row["id"] for row in rows) == ["a", "b", "before", "older"]
    assert said[0].startswith(refused)
    assert said[1:] == [
        "once: production drops 1 row: duplicate",
        "once: production drops 3 rows: late if they come in a micro-batch after the newest row",
        "once: production drops 1 row: no time",
    ]
    rows, said = inspected("hourly")
    assert sum(row["n"] for row in rows) == 5
    assert said[0].startswith(refused)
    assert said[1:] == [
        "hourly: production sets 3 rows aside: dead letter: late if they come in a micro-batch after the newest row",
        "hourly: production drops 1 row: no time",
    ]
    # Of the newest record alone nothing is late.
    rows, said = inspected("hourly", "--records", "1")
    assert [(row["window_start"], row["n"]) for row in rows] == [("1959-06-01T10:00:00.000Z", 1)]
    assert said == []
    # What a step before would drop is said, too.
    assert inspected("events", "-n", "1")[1][0].startswith(refused)


LATE = """
name = "late"
checkpoints = "checkpoints"

[sources.sent]
topics = ["late.sent"]
format = "json"
schema = "id string, at timestamp"
timestamps = "seconds"

[sources.seen]
topics = ["late.seen"]
format = "json"
schema = "id string, seen_at timestamp"
timestamps = "seconds"

[[steps]]
name = "once"
input = "sent"
deduplicate = { by = ["id"], within = "1 hour", time = "at", late_rows = "dead-letter" }

[[steps]]
name = "renamed"
sql = "select id, at as sent_at from once"

[[steps]]
name = "both"
[steps.join]
with = "seen"
on = "renamed.id = seen.id"
within = "1 hour"
time = "sent_at"
with_time = "seen_at"
late = "1 hour"
late_rows = "dead-letter"

[[sinks]]
name = "out"
topic = "late.out"

[dead_letters]
topic = "late.dead"

[audit]
topic = "late.audit"
"""


@pytest.mark.long
def test_late_rows_are_dead_letters_where_the_step_says_so(session: Session, broker: BrokerProcess, tmp_path: Path):
    there = Broker(broker.bootstrap)
    there.create(*(f"late.{name}" for name in ("sent", "seen", "out", "dead", "audit")))
    file = tmp_path / "late.toml"
    file.write_text(LATE)
    spec = read(file)
    hour, first = 3600, -10 * 365 * 86_400

    def sent(**at: int) -> None:
        there.produce("late.sent", events(*({"id": name, "at": when} for name, when in at.items())))

    def seen(**at: int) -> None:
        there.produce("late.seen", events(*({"id": name, "seen_at": when} for name, when in at.items())))

    sent(a=first, b=first + 10 * hour)
    seen(a=first + 60, c=first + 10 * hour)
    run(session, spec, there)
    # Both sides are up to the tenth hour: the watermark is the ninth.
    sent(early=first + 8 * hour, b=first + 10 * hour, c=first + 10 * hour)
    seen(behind=first + 9 * hour, b=first + 9 * hour + 1)
    outcome, _ = run(session, spec, there)
    assert outcome.failed == []
    out = [json.loads(message.value()) for message in there.consume("late.out")]
    assert sorted((row["id"], row["sent_at"], row["seen_at"]) for row in out) == [
        ("a", "1960-01-04T00:00:00.000000Z", "1960-01-04T00:01:00.000000Z"),
        ("b", "1960-01-04T10:00:00.000000Z", "1960-01-04T09:00:01.000000Z"),
        ("c", "1960-01-04T10:00:00.000000Z", "1960-01-04T10:00:00.000000Z"),
    ]
    found = [(json.loads(each.value())["id"], letter_of(each.headers())) for each in there.consume("late.dead")]
    assert sorted((name, letter.step, letter.reason) for name, letter in found) == [
        ("behind", "both", "late: seen_at is 1960-01-04 09:00:00, and the watermark 1960-01-04 09:00:00"),
        ("early", "once", "late: at is 1960-01-04 08:00:00, and the watermark 1960-01-04 09:00:00"),
    ]
    balance = balance_of(decode_report(message.value()) for message in there.consume("late.audit"))
    assert balance.findings == []
    assert {(total.step, reason): rows for total in balance.totals for reason, rows in total.dropped.items()} == {
        ("once", "duplicate"): 1
    }
    assert {total.step: total.rows["dead_letters"] for total in balance.totals if total.rows.get("dead_letters")} == {
        "once": 1,
        "both": 1,
    }
