"""Waits grow, stay bounded, and end."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.io.retry import Backoff, Deadline
from ottla.runtime.clock import ManualClock
from ottla.runtime.rng import SeededRng


@given(st.integers(0, 1_000_000), st.integers(0, 2**32))
def test_a_wait_is_never_longer_than_the_maximum_and_its_jitter(attempt, seed):
    delay = Backoff(100, 1_000).delay_ms(attempt, SeededRng(seed))
    assert 80 <= delay <= 1_200


def test_each_wait_doubles_until_the_maximum():
    class Middle(SeededRng):
        def uniform(self, low: float, high: float) -> float:
            return (low + high) / 2

    backoff = Backoff(100, 1_000)
    assert [backoff.delay_ms(attempt, Middle(0)) for attempt in range(6)] == [100, 200, 400, 800, 1_000, 1_000]


def test_a_deadline_passes_when_its_time_is_up():
    clock = ManualClock(5)
    deadline = Deadline(clock, 100)
    clock.advance(99)
    assert (deadline.left_ms, deadline.passed) == (1, False)
    clock.advance(2)
    assert (deadline.left_ms, deadline.passed) == (0, True)
