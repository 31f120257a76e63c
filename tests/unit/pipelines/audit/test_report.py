"""An audit record says what the progress of a query says, and is read again as it was written."""

import json

import msgspec
import pytest

from ottla.pipelines.audit.report import (
    Count,
    ForeignReportError,
    Point,
    Report,
    SourceRange,
    checksum_sum,
    decode_report,
    report_of,
)

PROGRESS = {
    "id": "q",
    "runId": "r",
    "name": "flights.delays",
    "timestamp": "2013-06-01T00:00:30.500Z",
    "batchId": 12,
    "numInputRows": 19,
    "durationMs": {"addBatch": 5, "triggerExecution": 9},
    "sources": [
        {
            "description": "ottla",
            "startOffset": {"events": {"0": 23}, "#topicIds": {"events": "1f"}},
            "endOffset": '{"events": {"0": 42}, "#topicIds": {"events": "1f"}}',
            "latestOffset": {"events": {"0": 50}},
            "numInputRows": 19,
        },
        {"description": "rate", "startOffset": None, "endOffset": 7, "numInputRows": 0},
    ],
    "observedMetrics": {
        Point("sane", "in", balanced=True).name: {"rows": 19, "low": (1 << 32) - 1, "high": 3},
        Point("sane", "out").name: {"rows": 0, "low": None, "high": None, "first_time_ms": None},
        "another": {"rows": 1},
    },
}


def test_the_report_of_a_batch():
    report = report_of(PROGRESS, "flights", 60_000)
    assert report == Report(
        pipeline="flights",
        sink="delays",
        query_id="q",
        run_id="r",
        batch=12,
        at_ms=1_370_044_830_500,
        window_ms=60_000,
        rows=19,
        sources=(
            SourceRange(start={"events": {"0": 23}}, end={"events": {"0": 42}}, rows=19),
            SourceRange(start={}, end={}, rows=0),
        ),
        points=(
            Count(step="sane", role="in", balanced=True, rows=19, checksum="00000003ffffffff"),
            Count(step="sane", role="out", rows=0, checksum="0" * 16),
        ),
    )
    assert report.window_start_ms == 1_370_044_800_000
    assert report.key == b"flights.delays"
    assert decode_report(report.encode()) == report


def test_a_query_of_another_pipeline_is_not_reported():
    assert report_of({**PROGRESS, "name": "flights2.delays"}, "flights", 60_000) is None
    assert report_of({**PROGRESS, "name": None}, "flights", 60_000) is None


@pytest.mark.parametrize("point", [Point("a", "in"), Point("a:b", "dead_letters", balanced=True)])
def test_a_point_is_found_again_by_the_name_of_its_observation(point: Point):
    assert Point.of(point.name) == point
    assert Point.of("observed by another") is None


def test_a_record_that_is_no_report_is_refused():
    report = report_of(PROGRESS, "flights", 60_000)
    assert report is not None
    document = json.loads(report.encode())
    for value in (None, b"", b"[1]", b'{"version": 1}', json.dumps({**document, "window_ms": 0}).encode()):
        with pytest.raises(ForeignReportError):
            decode_report(value)
    document["points"][0]["checksum"] = "none"
    with pytest.raises(ForeignReportError):
        decode_report(json.dumps(document).encode())
    with pytest.raises(ForeignReportError, match="of version 2; this is for version 1"):
        decode_report(msgspec.json.encode({"version": 2}))


def test_checksums_add_up_modulo_two_to_the_64():
    assert checksum_sum(["ffffffffffffffff", "0000000000000002"]) == "0000000000000001"


def test_a_query_that_waits_for_rows_did_no_batch():
    idle = {**PROGRESS, "batchId": 13, "numInputRows": 0, "durationMs": {"latestOffset": 2, "triggerExecution": 2}}
    assert report_of(idle, "flights", 60_000) is None


def test_the_ways_out_that_are_counted_with_the_way_in_are_counts_of_their_own():
    metrics: dict[str, int | None] = {"rows": 3, "low": 6, "high": 0, "out:rows": 2, "out:low": 5, "out:high": 0}
    metrics |= {"dead_letters:rows": 1, "dead_letters:low": 1, "dead_letters:high": None, "bad:not taken": 1}
    observed = {Point("lake", "in", balanced=True).name: metrics}
    report = report_of(PROGRESS | {"observedMetrics": observed}, "flights", 60_000)
    assert report is not None
    assert [(each.step, each.role, each.balanced, each.rows, int(each.checksum, 16)) for each in report.points] == [
        ("lake", "in", True, 3, 6),
        ("lake", "out", False, 2, 5),
        ("lake", "dead_letters", False, 1, 1),
    ]
