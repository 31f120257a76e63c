"""Rows that come behind the watermark, against a naive model: each is in the result or in the audit, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.report import decode_report
from ottla.pipelines.compiler.sources import BEFORE
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

IN_A_BATCH = 16
FILE = f"""
name = "behind-CASE"
checkpoints = "checkpoints"

[sources.events]
topics = ["CASE.events"]
format = "json"
schema = "id string, at timestamp"
timestamps = "seconds"
max_records = {IN_A_BATCH}

[sources.seen]
topics = ["CASE.seen"]
format = "json"
schema = "id string, seen_at timestamp"
timestamps = "seconds"
max_records = {IN_A_BATCH}

STEPS

[[sinks]]
name = "out"
topic = "CASE.out"

[dead_letters]
topic = "CASE.dead"

[audit]
topic = "CASE.audit"
"""
HOURLY = """
[[steps]]
name = "hourly"
input = "events"
window = { time = "at", every = "1 hour", late = "1 hour", aggregate = { n = "count(*)" } }
"""
DAILY = """
[[steps]]
name = "daily"
window = { time = "window_start", every = "1 day", aggregate = { n = "sum(n)" } }
"""
SLIDING = HOURLY.replace("hourly", "sliding").replace('"1 hour", late', '"1 hour", slide = "20 minutes", late')
ONCE = """
[[steps]]
name = "once"
input = "events"
deduplicate = { by = ["id"], within = "1 hour", time = "at" }

[[steps]]
name = "counted"
window = { time = "at", every = "1 hour", by = ["id"], aggregate = { n = "count(*)" } }
"""
BOTH = """
[[steps]]
name = "both"
input = "events"
[steps.join]
with = "seen"
on = "events.id = seen.id"
within = "1 hour"
time = "at"
with_time = "seen_at"
late = "1 hour"
"""
HOUR = 3600
FIRST = -11 * 365 * 86_400
"""In 1959, at midnight."""
CLOSING = FIRST + 10_000 * HOUR

CameOf = Callable[[str, str], "Came"]
Row = tuple[str, int | None]
"""Its id and its time."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def rows_of(random: Random, count: int) -> list[Row]:
    """Rows of one hour after the other, some of which come hours late, or without a time."""
    found: list[Row] = []
    for number in range(count):
        back = random.choice([0, 0, 600, HOUR, 12 * HOUR, 18 * HOUR])
        at = FIRST + number * 1200 - back - random.randrange(600)
        found.append((random.choice("abcd"), None if random.random() < 0.05 else at))
    return found


_RANDOM = Random(28)
EVENTS, SEEN = rows_of(_RANDOM, 4 * IN_A_BATCH), rows_of(_RANDOM, 4 * IN_A_BATCH)
TIMELESS = sum(at is None for _, at in EVENTS)


def batches(rows: Sequence[Row]) -> list[list[Row]]:
    return [[*rows[start : start + IN_A_BATCH]] for start in range(0, len(rows), IN_A_BATCH)]


@dataclass
class Watermarks:
    """Rows of micro-batch N are late by what was the newest two before it; what is kept goes by that of N-1."""

    delay: int
    newest: list[int] = field(default_factory=list)

    def late(self, number: int) -> int:
        return self._of(number - 2)

    def kept(self, number: int) -> int:
        return self._of(number - 1)

    def _of(self, number: int) -> int:
        return max(self.newest[: number + 1], default=-(10**12)) - self.delay if number >= 0 else -(10**12)


def watermarks(delay: int, *sides: Sequence[Sequence[Row]]) -> Watermarks:
    newest, found = [-(10**12)] * len(sides), []
    for together in zip(*sides, strict=True):
        for side, rows in enumerate(together):
            newest[side] = max([newest[side], *(at for _, at in rows if at is not None)])
        found.append(min(newest))
    return Watermarks(delay, found)


def windows_of(at: int, slide: int) -> list[tuple[int, int]]:
    """Of an hour each, with their ends."""
    last = at - at % slide
    return [(start, start + HOUR) for start in range(last, at - HOUR, -slide) if start + HOUR > at]


@dataclass
class Came:
    """What came of a pipeline: its records, and how many rows were dropped by step and reason."""

    out: list[dict[str, str]]
    dropped: dict[tuple[str, str], int]


@pytest.fixture
def came_of(session: Session, broker: BrokerProcess, tmp_path: Path) -> CameOf:
    """Runs a pipeline of these steps over the rows, and closes all windows."""

    def ran(case: str, steps: str) -> Came:
        there = Broker(broker.bootstrap)
        there.create(*(f"{case}.{name}" for name in ("events", "seen", "out", "dead", "audit")))
        file = tmp_path / "behind.toml"
        file.write_text(FILE.replace("STEPS", steps).replace("CASE", case))
        spec = read(file)
        # What closes all windows is in a window of its own, which stays open.
        for events, seen in ((EVENTS, SEEN), ([("z", CLOSING)], [("y", CLOSING)])):
            there.produce(f"{case}.events", [json.dumps({"id": name, "at": at}).encode() for name, at in events])
            there.produce(f"{case}.seen", [json.dumps({"id": name, "seen_at": at}).encode() for name, at in seen])
            outcome, _ = run(session, spec, there)
            assert outcome.failed == []
        assert there.consume(f"{case}.dead") == []
        balance = balance_of(decode_report(message.value()) for message in there.consume(f"{case}.audit"))
        assert balance.findings == []
        dropped: Counter[tuple[str, str]] = Counter()
        for total in balance.totals:
            for reason, rows in total.dropped.items():
                dropped[total.step, reason] += rows
        return Came([json.loads(message.value()) for message in there.consume(f"{case}.out")], dict(dropped))

    return ran


@pytest.mark.long
def test_a_late_row_of_a_window_before_a_window_is_counted_once(came_of: CameOf):
    hours, late = windows_in_time(EVENTS, HOUR)
    assert late > 5
    came = came_of("daily", HOURLY + DAILY)
    assert sum(int(row["n"]) for row in came.out) == sum(hours.values())
    assert came.dropped == {("hourly", "no time"): TIMELESS, ("hourly", "late"): late}


@pytest.mark.long
def test_a_row_is_late_for_windows_that_overlap_if_all_of_its_own_are_done(came_of: CameOf):
    slides, late = windows_in_time(EVENTS, HOUR // 3)
    assert late > 5
    came = came_of("sliding", SLIDING)
    assert {row["window_start"]: int(row["n"]) for row in came.out} == {text(at): n for at, n in slides.items()}
    assert came.dropped == {("sliding", "no time"): TIMELESS, ("sliding", "late"): late}


@pytest.mark.long
def test_a_row_is_the_first_of_its_key_or_a_duplicate_or_late(came_of: CameOf):
    once, doubles, late = first_of_each(EVENTS)
    assert min(once, doubles, late) > 5
    came = came_of("once", ONCE)
    assert sum(int(row["n"]) for row in came.out) == once
    assert came.dropped == {
        ("once", "no time"): TIMELESS,
        ("once", "late"): late,
        ("once", "duplicate"): doubles,
    }


@pytest.mark.long
def test_late_rows_of_both_sides_of_a_join_are_counted_once(came_of: CameOf):
    pairs, late = pairs_in_time(EVENTS, SEEN)
    assert min(len(pairs), late) > 5
    came = came_of("both", BOTH)
    assert Counter((row["id"], row["at"], row["seen_at"]) for row in came.out) == Counter(
        (name, text(at), text(other)) for name, at, other in pairs
    )
    assert came.dropped == {
        ("both", "no time"): TIMELESS,
        ("both/seen", "no time"): sum(at is None for _, at in SEEN),
        ("both", "late"): late,
    }


def windows_in_time(rows: Sequence[Row], slide: int) -> tuple[Counter[int], int]:
    """How many rows each window has; and how many rows came too late for all of theirs."""
    marks = watermarks(HOUR, batches(rows))
    found: Counter[int] = Counter()
    late = 0
    for number, batch in enumerate(batches(rows)):
        for at in (at for _, at in batch if at is not None):
            open_ones = [start for start, end in windows_of(at, slide) if end > marks.late(number)]
            found.update(open_ones)
            late += not open_ones
    return found, late


def first_of_each(rows: Sequence[Row]) -> tuple[int, int, int]:
    """How many rows are the first of their id within an hour, how many are not, and how many came too late."""
    marks = watermarks(HOUR, batches(rows))
    kept: dict[str, int] = {}
    once, doubles, late = 0, 0, 0
    for number, batch in enumerate(batches(rows)):
        for name, at in batch:
            if at is None:
                continue
            if at <= marks.late(number):
                late += 1
            elif name in kept:
                doubles += 1
            else:
                kept[name] = at + HOUR
                once += 1
        kept = {name: end for name, end in kept.items() if end > marks.kept(number)}
    return once, doubles, late


def pairs_in_time(events: Sequence[Row], seen: Sequence[Row]) -> tuple[list[tuple[str, int, int]], int]:
    """Which rows of one id are within an hour; and how many rows of both sides came too late."""
    marks = watermarks(HOUR, batches(events), batches(seen))
    late, sides = 0, list[list[tuple[str, int]]]()
    for side in (events, seen):
        rows = [(n, name, at) for n, batch in enumerate(batches(side)) for name, at in batch if at is not None]
        sides.append([(name, at) for number, name, at in rows if at > marks.late(number)])
        late += len(rows) - len(sides[-1])
    pairs = [(name, at, other) for name, at in sides[0] for same, other in sides[1] if name == same]
    return [each for each in pairs if abs(each[1] - each[2]) <= HOUR], late


SQL = """
name = "asked"
checkpoints = "checkpoints"

[sources.events]
topics = ["asked.events"]
format = "json"
schema = "id string, at timestamp"
timestamps = "seconds"

[[steps]]
name = "once"
deduplicate = { by = ["id"], within = "1 hour", time = "at" }

[[steps]]
name = "counted"
sql = "select window.start as hour, count(*) as n from once group by window(at, '1 hour')"

[[sinks]]
name = "out"
topic = "asked.out"

[dead_letters]
topic = "asked.dead"

[audit]
topic = "asked.audit"
"""


def test_a_query_of_windows_sees_the_watermark_of_a_step_before(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create(*(f"asked.{name}" for name in ("events", "out", "dead", "audit")))
    file = tmp_path / "asked.toml"
    file.write_text(SQL)
    spec = read(file)
    for rows in ([("a", HOUR), ("a", HOUR), ("b", 2 * HOUR - 1), ("c", 9 * HOUR), ("old", -HOUR)], [("d", HOUR)]):
        there.produce("asked.events", [json.dumps({"id": name, "at": at}).encode() for name, at in rows])
        outcome, events = run(session, spec, there)
        assert outcome.failed == []
    assert [each["watermark"] for each in events if each["event"] == "batch"][-1] == "1970-01-01T08:00:00.000Z"
    assert [json.loads(message.value()) for message in there.consume("asked.out")] == [{"hour": text(HOUR), "n": 2}]
    assert [letter_of(message.headers()).reason for message in there.consume("asked.dead")] == [
        f"at is 1969-12-31 23:00:00, {BEFORE}"
    ]
    balance = balance_of(decode_report(message.value()) for message in there.consume("asked.audit"))
    assert balance.findings == []
    assert {(total.step, reason): rows for total in balance.totals for reason, rows in total.dropped.items()} == {
        ("once", "duplicate"): 1,
        ("once", "late"): 1,
    }


def text(at: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000000Z"
