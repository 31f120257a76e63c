"""What people and machines read of what becomes of a query."""

import json

import pytest

from ottla.pipelines.live_view import JsonLines, PlainLines, Watching, WhileShown, event_line
from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.runtime.clock import ManualClock

AWAY = Failure("BrokerUnreachableError: no broker of 127.0.0.1:1 answers", Verdict.UNREACHABLE)

FULL = Failure("TableError: lake: no space left on its disk", Verdict.UNKNOWN)


def tell(watching: Watching) -> None:
    watching.waits("p.out", AWAY)
    watching.returned("p.out", 63_400)
    watching.stopping("p.out")
    watching.stopped("p.out", None)
    watching.stopped("p.lake", FULL)


def test_each_event_is_a_line_in_a_log():
    lines: list[str] = []
    clock = ManualClock(0)
    tell(Watching({}, PlainLines(lines.append, clock), clock))
    assert lines == [
        "p.out: waits until it can go on: BrokerUnreachableError: no broker of 127.0.0.1:1 answers",
        "p.out: goes on after 63 s",
        "p.out: ends after its micro-batch; a second signal ends it at once",
        "p.out: stopped; the next run goes on where it was",
        f"p.lake: stopped, its micro-batch failed: {FULL.reason}; the next run goes on where it was",
    ]


def test_each_event_is_an_object_for_machines():
    lines: list[str] = []
    tell(Watching({}, JsonLines(lines.append), ManualClock(0)))
    found = [json.loads(line) for line in lines]
    assert [each["event"] for each in found] == ["waiting", "returned", "stopping", "stopped", "stopped"]
    assert (found[0]["reason"], found[1]["away_ms"], found[3]["reason"]) == (AWAY.reason, 63_400, None)


def test_an_event_that_nobody_knows_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="vanished"):
        event_line("vanished", "p.out", {})


def test_when_nobody_reads_any_more_the_queries_are_told_to_end_once_and_nothing_is_raised_among_them():
    written: list[str] = []

    def write(line: str) -> None:
        if written:
            raise BrokenPipeError
        written.append(line)

    ends: list[str] = []
    shown = WhileShown(JsonLines(write))
    shown.tell(lambda: ends.append("ends"))
    tell(Watching({}, shown, ManualClock(0)))
    shown.tick()
    assert (len(written), ends, type(shown.error)) == (1, ["ends"], BrokenPipeError)


def test_a_run_shows_life_before_its_first_micro_batch_is_done():
    lines: list[str] = []
    clock = ManualClock(0)
    view = PlainLines(lines.append, clock)
    watching = Watching({}, view, clock)
    view.event("starting", "p")
    watching.starting("p.out")
    for _ in range(100):
        watching.working("p.out")
        clock.advance(250)
    assert lines == [
        "p: starts Spark",
        "p.out: plans its query",
        "p.out: its first micro-batch has begun",
        "p.out: its micro-batch has been under way for 10 s",
        "p.out: its micro-batch has been under way for 20 s",
    ]
    lines.clear()
    watching.progressed("p.out", {})
    for _ in range(40):
        watching.working("p.out")
        clock.advance(250)
    assert lines == [], "a later micro-batch is told of when it takes long"
    watching.working("p.out")
    assert lines == ["p.out: its micro-batch has been under way for 10 s"]


def test_a_query_that_is_started_again_and_again_while_brokers_are_away_is_told_of_once():
    lines: list[str] = []
    clock = ManualClock(0)
    watching = Watching({}, PlainLines(lines.append, clock), clock)
    for _ in range(5):
        watching.starting("p.out")
        watching.working("p.out")
        clock.advance(20_000)
        if len(lines) == 2:
            watching.waits("p.out", AWAY)
    assert lines == [
        "p.out: plans its query",
        "p.out: its first micro-batch has begun",
        f"p.out: waits until it can go on: {AWAY.reason}",
    ]
    watching.returned("p.out", 80_000)
    watching.working("p.out")
    assert len(lines) == 5
