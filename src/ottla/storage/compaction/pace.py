"""How fast the cleaner reads and writes, or logs are copied: so many bytes a second over all passes and copies."""

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
        self._waiting: dict[asyncio.Future[None], object] = {}

    async def spend(self, count: int, bytes_per_second: float, who: object = None) -> None:
        """`count` bytes were read or written: returns when that is not too fast, at `forgive`, or `wake` of `who`."""
        now_ms = self._clock.monotonic_ms()
        self._due_ms = max(self._due_ms, now_ms) + count * 1000 / bytes_per_second
        wait_ms = int(self._due_ms - now_ms)
        if wait_ms <= 0:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        self._waiting[woken] = who
        task = self._timer.schedule(wait_ms, wake)
        try:
            await woken
        finally:
            task.cancel()
            self._waiting.pop(woken, None)

    def wake(self, who: object) -> None:
        """Have somebody who waits go on at once, because there is nothing more to do."""
        for woken, waiting in self._waiting.items():
            if waiting is who and not woken.done():
                woken.set_result(None)

    def forgive(self) -> None:
        """Have everybody who waits go on at once: at a low rate a wait is many minutes, for a rate that may be over."""
        self._due_ms = 0.0
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)
