"""What Spark says that steps with state dropped, by step and reason."""

import pytest

from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.late import dropped
from ottla.pipelines.audit.report import Count, Point, Report, report_of

DEDUPE, WINDOW, JOIN = "dedupeWithinWatermark", "stateStoreSave", "symmetricHashJoin"


def operator(name: str, late: int, duplicates: int = 0) -> dict:
    return {
        "operatorName": name,
        "numRowsDroppedByWatermark": late,
        "customMetrics": {"numDroppedDuplicateRows": duplicates} if name == DEDUPE else {},
    }


@pytest.mark.parametrize(
    ("operators", "expected", "found"),
    [
        (
            [operator(WINDOW, 2), operator(DEDUPE, 3, 5)],
            [("hourly", WINDOW), ("once", DEDUPE)],
            {("hourly", "late"): 2, ("once", "late"): 3, ("once", "duplicate"): 5},
        ),
        # Two branches of one query: the state is there twice, and its rows came in once.
        (
            [operator(DEDUPE, 1, 1), operator(DEDUPE, 1, 1)],
            [("once", DEDUPE)],
            {("once", "late"): 1, ("once", "duplicate"): 1},
        ),
        # A state that a query of SQL keeps.
        ([operator(JOIN, 4), operator(DEDUPE, 1)], [("once", DEDUPE)], {(JOIN, "late"): 4, ("once", "late"): 1}),
        ([operator(DEDUPE, 1), operator(JOIN, 4)], [("once", DEDUPE)], {(JOIN, "late"): 4, ("once", "late"): 1}),
        ([operator(WINDOW, 2)], [], {(WINDOW, "late"): 2}),
        ([operator(DEDUPE, 0)], [("once", DEDUPE)], {}),
        ([], [], {}),
    ],
)
def test_rows_go_by_the_step_that_dropped_them(operators, expected, found):
    counts = list(dropped(operators, expected))
    assert {(each.step, each.reason): each.rows for each in counts} == found
    assert {each.role for each in counts} <= {"dropped"}


def test_late_rows_that_are_counted_before_spark_are_not_counted_again():
    operators = [operator(WINDOW, 2), operator(DEDUPE, 3, 5)]
    counts = dropped(operators, [("hourly", WINDOW), ("once", DEDUPE)], frozenset({"hourly"}))
    assert [(each.step, each.reason, each.rows) for each in counts] == [("once", "late", 3), ("once", "duplicate", 5)]


def test_all_reasons_of_a_step_are_part_of_its_balance_and_told_apart():
    def count(role, rows, **more):
        return Count(step="once", role=role, rows=rows, checksum="00", **more)

    def report(late: int) -> Report:
        points = (
            count("in", 10, balanced=True),
            count("out", 4),
            count("dropped", 1, reason="no time"),
            count("dropped", 2, reason="duplicate"),
            count("dropped", late, reason="late"),
        )
        return Report(
            pipeline="p",
            sink="s",
            query_id="q",
            run_id="r",
            batch=0,
            at_ms=0,
            window_ms=1,
            rows=10,
            sources=(),
            points=points,
        )

    balance = balance_of([report(3)])
    assert balance.findings == []
    assert balance.totals[0].dropped == {"no time": 1, "duplicate": 2, "late": 3}
    assert [each.kind for each in balance_of([report(2)]).findings] == ["imbalance"]


def test_an_observation_says_the_rows_that_are_dropped_behind_it_by_reason():
    observed = {Point("once", "in", balanced=True).name: {"rows": 9, "low": 0, "high": 0, "dropped:no time": 2}}
    progress = {
        "name": "p.s",
        "id": "q",
        "runId": "r",
        "batchId": 0,
        "timestamp": "2013-06-01T00:00:00.000Z",
        "sources": [],
        "numInputRows": 9,
        "durationMs": {"addBatch": 1},
        "observedMetrics": observed,
    }
    report = report_of(progress, "p", 60_000)
    assert report is not None
    assert [(each.role, each.reason, each.rows) for each in report.points] == [("in", "", 9), ("dropped", "no time", 2)]
