import time

import pytest

from ottla.runtime.clock import ManualClock, SystemClock


def test_the_wall_clock_counts_milliseconds_since_1970():
    before = int(time.time() * 1000)
    now = SystemClock().now_ms()
    assert before - 1 <= now <= int(time.time() * 1000) + 1


def test_a_manual_clock_moves_both_clocks_only_when_told():
    clock = ManualClock(100)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (105, 105)


def test_a_jump_of_the_wall_clock_does_not_touch_the_monotonic_one():
    clock = ManualClock(100)
    clock.set_now(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (5, 100)


def test_manual_time_does_not_go_back():
    with pytest.raises(ValueError, match="back"):
        ManualClock().advance(-1)
