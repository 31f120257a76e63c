"""How fast the cleaner reads and writes: so many bytes a second over all its passes."""

from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer


class Pace:
    """Makes those who spend bytes wait until their share of time has passed. Belongs to the event loop."""

    __slots__ = ("_clock", "_due_ms", "_timer")

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._due_ms = 0.0

    async def spend(self, count: int, bytes_per_second: float) -> None:
        """`count` bytes were read or written: returns when that is not too fast."""
        now_ms = self._clock.monotonic_ms()
        self._due_ms = max(self._due_ms, now_ms) + count * 1000 / bytes_per_second
        wait_ms = int(self._due_ms - now_ms)
        if wait_ms > 0:
            await self._timer.sleep(wait_ms)
