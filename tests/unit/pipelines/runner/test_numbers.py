"""The progress of Spark as numbers, and how they are shown."""

import json
from typing import Any

from ottla.pipelines.live_view import JsonLines, PlainLines, Watching
from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.pipelines.runner.numbers import StepNumbers, numbers_of
from ottla.pipelines.spec.model import Expect, Expectation, PipelineSpec, Source, Sql, Step, TopicSink
from ottla.runtime.clock import ManualClock

SPEC = PipelineSpec(
    name="p",
    sources={"events": Source(name="events", topics=("events",), format="json", schema="a int")},
    steps=(
        Step(
            name="sane",
            inputs=("events",),
            action=Expect(
                expect=(
                    Expectation(name="a", check="a > 0", on_fail="drop"),
                    Expectation(name="b", check="a > 1", on_fail="dlq"),
                    Expectation(name="c", check="a > 2"),
                )
            ),
        ),
        Step(name="all", inputs=("sane",), action=Sql(sql="select * from sane")),
    ),
    sinks=(TopicSink(name="out", input="all", topic="t", transactional_id="p.out"),),
)
PROGRESS: dict[str, Any] = {
    "batchId": 4,
    "batchDuration": 500,
    "durationMs": {"addBatch": 400, "triggerExecution": 500},
    "observedMetrics": {
        "events?": {"rows": 10, "newest": "2026-01-01T00:00:00.000Z", "bad:does not decode": 1},
        "sane?": {"rows": 9, "bad:a": 1, "bad:b": 2, "bad:c": 3},
        "sane": {"rows": 7},
        "all": {"rows": 7},
    },
    "sources": [
        {
            "endOffset": {"events": {"0": 5, "1": 5}, "#topicIds": {"events": "x"}},
            "latestOffset": {"events": {"0": 9, "1": 5}},
        }
    ],
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 2048, "numRowsDroppedByWatermark": 1}],
    "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
}
NOW_MS = 1_767_225_602_500


def test_rows_that_a_sink_does_not_take_are_bad():
    observed = PROGRESS["observedMetrics"]
    for name, refused in (("out?", 2), ("ottla.audit:in:=:out", 2), ("out?", 0)):
        numbers = numbers_of(
            SPEC,
            "p.out",
            PROGRESS | {"observedMetrics": observed | {name: {"rows": 7, "bad:not taken": refused}}},
            NOW_MS,
        )
        assert numbers.steps.get("out") == (StepNumbers(7, 5, {"not taken": 2}) if refused else None)
        assert numbers.bad_rows == numbers_of(SPEC, "p.out", PROGRESS, NOW_MS).bad_rows + refused
        assert (numbers.bad_reason == "out: not taken") == (refused > 0)


def test_a_progress_as_numbers():
    numbers = numbers_of(SPEC, "p.out", PROGRESS, NOW_MS)
    assert numbers.steps == {
        "events": StepNumbers(10, 9, {"does not decode": 1}),
        "sane": StepNumbers(9, 7, {"a": 1, "b": 2, "c": 3}),
        "all": StepNumbers(7, 7, {}),
    }
    assert (numbers.rows_in, numbers.lag_records, numbers.lag_seconds) == (10, 4, 2.5)
    assert (numbers.state_rows, numbers.state_bytes, numbers.late_rows) == (3, 2048, 1)


def test_with_an_audit_the_numbers_are_those_of_its_observations():
    names = {"events?": "in:=:events", "sane?": "in:~:sane", "sane": "out:~:sane", "all": "out:~:all"}
    sums = {"low": 1, "high": 2}
    observed = {f"ottla.audit:{name}": PROGRESS["observedMetrics"][plain] | sums for plain, name in names.items()}
    observed |= {"ottla.audit:out:~:events": {"rows": 9} | sums, "ottla.audit:dead_letters:~:sane": {"rows": 2} | sums}
    audited = numbers_of(SPEC, "p.out", {**PROGRESS, "observedMetrics": observed}, NOW_MS)
    assert audited == numbers_of(SPEC, "p.out", PROGRESS, NOW_MS)


def test_a_bad_row_counts_once_whatever_it_fails_and_one_that_is_only_warned_of_is_not_bad():
    numbers = numbers_of(SPEC, "p.out", PROGRESS, NOW_MS)
    assert (numbers.bad_rows, numbers.bad_reason) == (1 + 2, "sane: b")
    assert (numbers.warnings, numbers.warning_reason) == (3, "sane: c")
    observed = {**PROGRESS["observedMetrics"], "sane?": {"rows": 9, "bad:a": 0, "bad:b": 0, "bad:c": 3}}
    observed |= {"sane": {"rows": 9}, "events?": {"rows": 9, "bad:does not decode": 0}}
    numbers = numbers_of(SPEC, "p.out", {**PROGRESS, "observedMetrics": observed}, NOW_MS)
    assert (numbers.bad_rows, numbers.bad_reason, numbers.warnings) == (0, None, 3)


def test_a_progress_that_says_little_gives_zeros():
    numbers = numbers_of(SPEC, "p.out", {"batchId": 0, "sources": [{"latestOffset": "nonsense"}]}, NOW_MS)
    assert (numbers.rows_in, numbers.lag_records, numbers.lag_seconds, numbers.watermark) == (0, 0, 0.0, None)


def test_lines_for_people_come_now_and_then_and_at_the_end():
    lines, clock = [], ManualClock(NOW_MS)
    watching = Watching({"p.out": SPEC}, PlainLines(lines.append, clock), clock)
    watching.progressed("p.out", PROGRESS)
    watching.progressed("p.out", {**PROGRESS, "batchId": 5})
    assert len(lines) == 1
    assert "lag 4 records, 2.5 s" in lines[0]
    assert "3 bad rows (latest: sane: b); 3 warnings (latest: sane: c)" in lines[0]
    watching.restarts("p.out", Failure("away", Verdict.UNREACHABLE), 1500)
    watching.finished("p.out")
    assert lines[1] == "p.out: failed: away; starts again in 1.5 s"
    assert "rows events 18, sane 14, all 14" in lines[2]
    assert lines[3] == "p.out: caught up"


def test_the_last_line_for_people_is_not_said_twice():
    lines, clock = [], ManualClock(NOW_MS)
    watching = Watching({"p.out": SPEC}, PlainLines(lines.append, clock), clock)
    watching.progressed("p.out", PROGRESS)
    watching.finished("p.out")
    assert len(lines) == 2
    assert lines[1] == "p.out: caught up"


def test_a_query_that_waits_for_rows_is_not_taken_for_one_that_did_a_batch():
    lines, clock = [], ManualClock(NOW_MS)
    watching = Watching({"p.out": SPEC}, JsonLines(lines.append), clock)
    watching.progressed("p.out", {**PROGRESS, "batchId": 5, "durationMs": {"latestOffset": 2, "triggerExecution": 2}})
    assert lines == []


def test_lines_for_machines_are_objects():
    lines, clock = [], ManualClock(NOW_MS)
    watching = Watching({"p.out": SPEC}, JsonLines(lines.append), clock)
    watching.progressed("p.out", PROGRESS)
    watching.gave_up("p.out", Failure("no", Verdict.HOPELESS))
    first, second = map(json.loads, lines)
    assert (first["event"], first["query"], first["batch"], first["steps"]["sane"]["rows_in"]) == (
        "batch",
        "p.out",
        4,
        9,
    )
    assert second == {"event": "failed", "query": "p.out", "reason": "no"}
