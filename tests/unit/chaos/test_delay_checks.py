"""What the checkers of delay topics say of what was delivered when."""

import pytest

from chaos.delay_lateness import Outage, lateness
from chaos.lost_tail import batch_starts
from chaos.schedule_work import MINUTE_MS, Tick, wrong_ticks
from ottla.native import build_batch

BEGUN = {"a": (10_000, 10_100)}
STOPPED = {"a": (4 * MINUTE_MS + 40_000, 4 * MINUTE_MS + 41_000)}
RIGHT: list[Tick] = [("a", minute * MINUTE_MS) for minute in range(1, 5)]


def found(ticks: list[Tick], outages: list[tuple[int, int]] | None = None) -> list[str]:
    return wrong_ticks(ticks, BEGUN, STOPPED, outages or [], 9 * MINUTE_MS)


def test_each_minute_once_is_right() -> None:
    assert found(RIGHT) == []


@pytest.mark.parametrize(
    ("ticks", "what"),
    [
        ([*RIGHT, RIGHT[1]], "a time came more than once"),
        ([*RIGHT, ("a", 6 * MINUTE_MS)], "it was stopped at"),
        ([*RIGHT, ("a", 0)], "is before it began"),
        ([*RIGHT, ("a", 70_000)], "a time that it has not"),
        ([RIGHT[0], *RIGHT[2:]], "120000 never came"),
    ],
)
def test_what_must_not_be_is_found(ticks: list[Tick], what: str) -> None:
    (wrong,) = found(ticks)
    assert what in wrong


def test_a_time_may_be_left_out_while_nobody_led() -> None:
    missing = [RIGHT[0], *RIGHT[2:]]
    assert found(missing, [(110_000, 150_000)]) == []
    assert found(missing, [(110_000, 111_000)]) != []


def test_how_late_records_came_is_told_by_what_was_done_when_they_were_due() -> None:
    some = [("a@100", 150), ("b@190", 320), ("c@250", 310), ("d@310", 315), ("e@190", 195), ("f@210", 290)]
    there = dict.fromkeys((value for value, _ in some), 0)
    found = lateness(some, there, [Outage(200, 300, "pause")])
    assert found == {"while led": [50, 5, 5], "after pause": [20, 10], "during a fault": [80]}
    assert lateness([("a@100", 150), ("unknown@100", 150)], {"a@100": 145}, []) == {"while led": [5]}


def test_batches_of_a_segment_begin_behind_one_another_and_a_torn_one_too() -> None:
    one = bytes(build_batch([(1, b"k", b"v", [])]))
    assert batch_starts(one + one) == [0, len(one)]
    assert batch_starts(one + one[:20]) == [0, len(one)]
    assert batch_starts(one + bytes(12)) == [0]
