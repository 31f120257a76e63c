"""How fast the cleaner reads and writes: so many bytes a second over all its passes."""

import asyncio

from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer


class Pace:
    """Makes those who spend bytes wait until their share of time has passed. Belongs to the event loop."""

    __slots__ = ("_clock", "_due_ms", "_timer", "_waiting")

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._due_ms = 0.0
        self._waiting: set[asyncio.Future[None]] = set()

    async def spend(self, count: int, bytes_per_second: float) -> None:
        """`count` bytes were read or written: returns when that is not too fast, or at `forgive`."""
        now_ms = self._clock.monotonic_ms()
        self._due_ms = max(self._due_ms, now_ms) + count * 1000 / bytes_per_second
        wait_ms = int(self._due_ms - now_ms)
        if wait_ms <= 0:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        self._waiting.add(woken)
        task = self._timer.schedule(wait_ms, wake)
        try:
            await woken
        finally:
            task.cancel()
            self._waiting.discard(woken)

    def forgive(self) -> None:
        """Have everybody who waits go on at once: at a low rate a wait is many minutes, for a rate that may be over."""
        self._due_ms = 0.0
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)
