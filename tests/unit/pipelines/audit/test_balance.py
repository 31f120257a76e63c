"""The audit names what is missing, what is there twice and what does not add up, and nothing else."""

import random
from typing import Any

import msgspec

from ottla.pipelines.audit.balance import Balance, Total, balance_of
from ottla.pipelines.audit.report import Count, Report, Role, SourceRange

MINUTE_MS = 60_000
ROWS = 10


def report(batch: int, *, sink: str = "delays", query: str = "q", first: int = 0, **changes: Any) -> Report:
    """Batch by batch ten records of one partition, of which one is dropped and one is a dead letter."""
    begin = first + batch * ROWS
    counts: list[tuple[Role, int]] = [("in", ROWS), ("out", ROWS - 2), ("dropped", 1), ("dead_letters", 1)]
    made = Report(
        pipeline="flights",
        sink=sink,
        query_id=query,
        run_id="r",
        batch=batch,
        at_ms=batch * 20_000,
        window_ms=MINUTE_MS,
        rows=ROWS,
        sources=(SourceRange(start={"events": {"0": begin}}, end={"events": {"0": begin + ROWS}}, rows=ROWS),),
        points=tuple(
            Count(step="sane", role=role, balanced=role == "in", rows=rows, checksum=f"{rows:016x}")
            for role, rows in counts
        ),
    )
    return msgspec.structs.replace(made, **changes)


def messages(balance: Balance) -> list[tuple[str, str]]:
    return [(each.kind, each.message) for each in balance.findings]


def test_a_pipeline_that_is_well_has_totals_by_window_and_no_findings():
    reports = [report(batch) for batch in range(7)]
    random.Random(4).shuffle(reports)
    balance = balance_of(reports)
    assert messages(balance) == []
    assert (balance.batches, balance.repeated) == (7, 0)
    assert [(each.window_start_ms, each.rows) for each in balance.totals] == [
        (0, {"in": 30, "out": 24, "dropped": 3, "dead_letters": 3}),
        (MINUTE_MS, {"in": 30, "out": 24, "dropped": 3, "dead_letters": 3}),
        (2 * MINUTE_MS, {"in": 10, "out": 8, "dropped": 1, "dead_letters": 1}),
    ]
    assert balance.totals[0].checksums["in"] == f"{30:016x}"


def test_a_batch_that_ran_again_equally_counts_once():
    balance = balance_of([report(0), report(1), report(1, run_id="later", at_ms=90_000), report(2)])
    assert messages(balance) == []
    assert (balance.batches, balance.repeated) == (3, 1)
    assert sum(each.rows["in"] for each in balance.totals) == 30


def test_a_batch_that_ran_again_differently_is_a_repeat():
    counts = (*report(1).points[:1], Count(step="sane", role="out", rows=7, checksum="7"), *report(1).points[2:])
    balance = balance_of([report(0), report(1), report(1, points=counts)])
    assert messages(balance) == [("repeat", "batch 1 is reported twice and differently: sane out 8 rows, then 7")]
    other = Count(step="sane", role="out", rows=8, checksum="7")
    balance = balance_of([report(0), report(0, points=(report(0).points[0], other, *report(0).points[2:]))])
    assert messages(balance) == [("repeat", "batch 0 is reported twice and differently: sane out other rows, as many")]


def test_batches_that_are_not_reported_are_a_gap_with_their_offsets():
    balance = balance_of([report(3), report(4), report(7), report(9)])
    assert messages(balance) == [
        ("gap", "batches 5 to 6 are not reported: offsets 50 to 69 of events-0"),
        ("gap", "batch 8 is not reported: offsets 80 to 89 of events-0"),
    ]


def test_a_batch_that_begins_after_the_end_of_the_one_before_is_a_gap_and_before_it_a_repeat():
    assert messages(balance_of([report(0), report(1, sources=report(1, first=5).sources)])) == [
        ("gap", "batch 1 begins and leaves out offsets 10 to 14 of events-0")
    ]
    assert messages(balance_of([report(0), report(1, sources=report(1, first=-5).sources)])) == [
        ("repeat", "batch 1 begins and reads again offsets 5 to 9 of events-0")
    ]


def test_a_partition_that_is_new_is_no_gap():
    ranges = SourceRange(start={"events": {"0": 10, "1": 5}}, end={"events": {"0": 20, "1": 9}}, rows=14)
    assert messages(balance_of([report(0), report(1, sources=(ranges,))])) == []


def test_rows_that_are_lost_in_a_step_are_an_imbalance():
    balance = balance_of([report(0, points=report(0).points[:3])])
    assert messages(balance) == [("imbalance", "batch 0, step sane: 10 in, but 8 out + 1 dropped")]
    assert (balance.findings[0].sink, balance.findings[0].window_start_ms) == ("delays", 0)


def test_a_step_that_may_change_how_many_rows_there_are_need_not_balance():
    counts = (
        Count(step="hourly", role="in", rows=10, checksum="0"),
        Count(step="hourly", role="out", rows=2, checksum="0"),
    )
    balance = balance_of([report(0, points=counts)])
    assert messages(balance) == []
    zero = "0" * 16
    assert balance.totals == [Total(0, "delays", "hourly", {"in": 10, "out": 2}, {"in": zero, "out": zero})]


def test_each_sink_and_each_checkpoint_has_batches_of_its_own():
    later = [report(batch, query="q2", first=20, at_ms=100_000 + batch) for batch in range(2)]
    assert messages(balance_of([report(0), report(1), *later, report(5, sink="lake")])) == []


def test_a_new_checkpoint_that_does_not_go_on_where_the_last_one_ended_is_named():
    again = report(0, query="q2", at_ms=100_000)
    assert messages(balance_of([report(0), report(1), again])) == [
        ("repeat", "checkpoint q2 began and reads again offsets 0 to 19 of events-0")
    ]
