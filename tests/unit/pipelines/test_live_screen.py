"""What people see of a pipeline that runs, in a terminal of any width."""

import pytest

from ottla.pipelines.live_screen import screen_lines
from ottla.pipelines.live_view import Sums
from ottla.pipelines.runner.numbers import BatchNumbers, StepNumbers

STEPS = {
    "events": StepNumbers(1_234_567, 1_234_500, {"does not decode": 67}),
    "a_step_with_a_long_name": StepNumbers(1_234_500, 12),
}


def sums(query: str) -> Sums:
    found = Sums()
    lag, watermark, state = (1_234, 5.25), "2013-06-01T10:05:00.000Z", (99, 4_096)
    bad, warned = (67, "events: does not decode"), (2, "sane: flight")
    found.add(BatchNumbers(query, 12, 2.0, 1_234_567, STEPS, *lag, watermark, *state, 3, *bad, *warned))
    return found


def lines(width: int, **queries: Sums) -> list[str]:
    return ["".join(text for text, _ in line) for line in screen_lines(queries, width)]


@pytest.mark.parametrize("width", [40, 80])
def test_what_is_being_done_is_said_below_the_numbers_and_before_there_are_any(width):
    doing = {"delays": "delays: its micro-batch has been under way for 120 s", "lake": "lake: plans its query"}
    for queries in ({}, {"delays": sums("delays")}):
        shown = ["".join(text for text, _ in line) for line in screen_lines(queries, width, doing)]
        assert max(map(len, shown)) <= width
        assert " ".join(" ".join(shown).split()).endswith("under way for 120 s lake: plans its query")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 400])
def test_everything_is_said_in_a_terminal_of_any_width(width):
    shown = lines(width, delays=sums("delays"), lake=sums("lake"))
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    for query in ("delays #12", "lake #12"):
        assert query in text
    for piece in (
        "lag 1,234 records, 5.2 s",
        "watermark 2013-06-01T10:05:00.000Z",
        "state 99 rows, 4 KiB",
        "3 late rows dropped",
        "67 bad rows (latest: events: does not decode)"[:36],
        "2 warnings (latest: sane: flight)",
    ):
        assert text.count(piece) == 2, piece


def test_rows_and_rates_of_each_step_are_below_each_other():
    assert lines(80, delays=sums("delays"))[-3:] == [
        "                             rows in     in/s   rows out    out/s",
        "  events                   1,234,567  617,284  1,234,500  617,250",
        "  a_step_with_a_long_name  1,234,500  617,250         12        6",
    ]
    assert lines(40, delays=sums("delays"))[-3:] == [
        "                   in  in/s   out  out/s",
        "  events         1.2M  617k  1.2M   617k",
        "  a_step_with_…  1.2M  617k    12      6",
    ]


def test_a_step_that_the_last_micro_batch_left_out_has_no_rate_and_nothing_is_said_of_what_is_not_there():
    found = sums("delays")
    found.add(
        BatchNumbers("delays", 13, 0.0, 1, {"events": StepNumbers(1, 1)}, 0, 0.0, None, 0, 0, 0, 0, None, 0, None)
    )
    assert lines(80, delays=found)[-1].split() == ["a_step_with_a_long_name", "1,234,500", "12"]
    bare = Sums()
    bare.add(BatchNumbers("bare", 0, 1.0, 0, {}, 0, 0.0, None, 0, 0, 0, 0, None, 0, None))
    assert lines(80, bare=bare)[0] == "bare #0  lag 0"


def test_before_the_first_micro_batch_there_is_a_line():
    assert lines(80) == ["no micro-batch yet"]
