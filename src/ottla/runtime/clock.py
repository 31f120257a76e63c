"""What time it is. The only place in Ottla that asks the operating system."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks, both in whole milliseconds."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970-01-01 UTC. It may jump either way: for timestamps, never for waiting."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back. For time-outs and rates."""
        ...


class SystemClock:
    """The operating system's clocks. Safe to use from any thread."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when it is told to, for tests and simulation.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(50)
    >>> clock.now_ms()
    1050
    """

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._monotonic_ms = start_ms

    def now_ms(self) -> int:
        """Wall clock, as `advance` and `set_now` left it."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Monotonic clock, as `advance` left it."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let time pass on both clocks; `ms` is not negative."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms}")
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_now(self, now_ms: int) -> None:
        """Make the wall clock jump, as an operator or NTP may; the monotonic clock does not notice."""
        self._now_ms = now_ms


def monotonic_ns() -> int:
    """The operating system's monotonic clock in nanoseconds, for what takes less than a millisecond."""
    return time.monotonic_ns()
