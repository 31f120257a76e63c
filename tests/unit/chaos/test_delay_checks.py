"""What the checkers of delay topics say of what was delivered when."""

import pytest

from chaos.delay_topic import lateness
from chaos.schedule_work import MINUTE_MS, Tick, wrong_ticks

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


def test_late_while_led_is_only_what_waited_in_no_outage() -> None:
    some = [("a@100", 150), ("b@190", 320), ("c@250", 310), ("d@310", 315), ("e@190", 195)]
    assert lateness(some, [(200, 300)], led=True) == [50, 5, 5]
    assert lateness(some, [(200, 300)], led=False) == [130, 60]
