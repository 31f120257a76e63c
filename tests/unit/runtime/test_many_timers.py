"""The timing wheel with very many timers, against a sorted list: none early, none left behind, none twice."""

from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.runtime.timing_wheel import TimerTask, TimingWheel

Listed = tuple[int, int, TimerTask]
"""When it is due, a number of its own, and the task."""

TEN_YEARS_MS = 3_653 * 86_400_000
SPANS_MS = (0, 50, 5_000, 600_000, 86_400_000, TEN_YEARS_MS)
"""How far away timers are: of each kind, about as many."""


def nothing() -> None:
    pass


class ManyTimers:
    """A wheel, and what it should hold as a list in the order in which that is due."""

    def __init__(self, rng: Random, *, tick_ms: int, size: int) -> None:
        self.rng = rng
        self.now_ms = rng.randrange(1 << 41)
        self.tick_ms = tick_ms
        self.wheel = TimingWheel(self.now_ms, tick_ms=tick_ms, size=size)
        self.listed: list[Listed] = []
        self.number = 0

    def add(self, count: int) -> None:
        rng, now_ms, wheel = self.rng, self.now_ms, self.wheel
        for _ in range(count):
            span_ms = SPANS_MS[rng.randrange(len(SPANS_MS))]
            expiry_ms = now_ms + int(span_ms * rng.random()) - 20
            # Not before the next tick; one that was due before this tick is due in it.
            due_ms = max(-(-expiry_ms // self.tick_ms) * self.tick_ms, now_ms - now_ms % self.tick_ms)
            self.listed.append((due_ms, self.number, wheel.add(nothing, expiry_ms, now_ms)))
            self.number += 1
        self.listed.sort()

    def cancel(self, share: float) -> None:
        kept = []
        for each in self.listed:
            if self.rng.random() < share:
                assert each[2].cancel()
                assert not each[2].cancel()
            else:
                kept.append(each)
        self.listed = kept

    def advance(self, now_ms: int) -> None:
        self.now_ms = now_ms
        end = bisect_right(self.listed, now_ms, key=lambda each: each[0])
        expected, self.listed = self.listed[:end], self.listed[end:]
        due = self.wheel.advance(now_ms)
        of = {each[2]: each[0] for each in expected}
        assert len(due) == len(set(due)) == len(of)
        found_ms = [of[task] for task in due]  # a KeyError is one that is early, or comes twice
        assert found_ms == sorted(found_ms)
        assert not any(task.is_pending for task in due)
        assert len(self.wheel) == len(self.listed)
        next_ms = self.wheel.next_expiry_ms()
        if self.listed:
            assert next_ms is not None
            assert now_ms <= next_ms <= self.listed[0][0]
        else:
            assert next_ms is None

    def pass_time(self) -> None:
        """To the next timer, within the minute, or to somewhere among those that wait, by chance."""
        kind = self.rng.randrange(4)
        if kind == 0 and (next_ms := self.wheel.next_expiry_ms()) is not None:
            self.advance(max(self.now_ms, next_ms))
        elif kind == 1 and self.listed:
            self.advance(max(self.now_ms, self.listed[self.rng.randrange(len(self.listed))][0] - 1))
        else:
            self.advance(self.now_ms + self.rng.randrange(60_000))


def run(rng: Random, count: int, rounds: int, *, tick_ms: int, size: int) -> None:
    timers = ManyTimers(rng, tick_ms=tick_ms, size=size)
    for _ in range(rounds):
        timers.add(count // rounds)
        if rng.random() < 0.3:
            timers.cancel(rng.random() / 4)
        for _ in range(3):
            timers.pass_time()
    timers.advance(timers.now_ms + TEN_YEARS_MS + tick_ms)
    assert len(timers.wheel) == 0


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([10, 300, 3_000, 10_000]),
    st.sampled_from([1, 4, 20]),
    st.sampled_from([1, 1, 7, 100]),
    st.sampled_from([2, 20, 64]),
)
def test_many_timers_are_due_as_in_a_sorted_list(seed: int, count: int, rounds: int, tick_ms: int, size: int) -> None:
    run(Random(seed), count, rounds, tick_ms=tick_ms, size=size)


@pytest.mark.long
def test_a_million_timers_are_due_as_in_a_sorted_list() -> None:
    run(Random(29), 1_000_000, 25, tick_ms=1, size=64)
