"""Timers on the event loop: a timing wheel and one outstanding call of the loop's.

However many tasks are scheduled, the loop sees one `call_later`: for the earliest bucket of the wheel. It is asked anew
only when a task arrives that is due earlier, and not at all while nothing is scheduled.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ottla.runtime.clock import Clock, ManualClock
from ottla.runtime.timing_wheel import TimerTask, TimingWheel

logger = logging.getLogger(__name__)


class Cancellable(Protocol):
    """What `CallLater` returns."""

    def cancel(self) -> None:
        """Do not call."""
        ...


CallLater = Callable[[float, Callable[[], None]], Cancellable]
"""`loop.call_later`, or one like it: seconds from now and what to call."""


class Timer:
    """Calls back once, after a delay. Belongs to one event loop; its methods are called from there only."""

    __slots__ = ("_armed", "_armed_for_ms", "_call_later", "_clock", "_wheel")

    def __init__(self, clock: Clock, call_later: CallLater) -> None:
        self._clock = clock
        self._call_later = call_later
        self._wheel = TimingWheel(clock.monotonic_ms())
        self._armed: Cancellable | None = None
        self._armed_for_ms = 0

    def __len__(self) -> int:
        """How many tasks are scheduled."""
        return len(self._wheel)

    def schedule(self, delay_ms: int, callback: Callable[[], object]) -> TimerTask:
        """Call `callback` in a later turn of the loop, when `delay_ms` have passed.

        The task can be cancelled at no cost. An exception of the callback is logged; the other tasks go on.
        """
        now_ms = self._clock.monotonic_ms()
        task = self._wheel.add(callback, now_ms + max(delay_ms, 0), now_ms)
        self._arm(now_ms)
        return task

    async def sleep(self, delay_ms: int) -> None:
        """Return when `delay_ms` have passed on this timer."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        task = self.schedule(delay_ms, wake)
        try:
            await woken
        finally:
            task.cancel()

    def close(self) -> None:
        """Let go of the loop. What is scheduled is not called."""
        self._disarm()

    def _arm(self, now_ms: int) -> None:
        next_ms = self._wheel.next_expiry_ms()
        if next_ms is None:
            return
        if self._armed is not None:
            if self._armed_for_ms <= next_ms:
                return
            self._armed.cancel()
        self._armed_for_ms = next_ms
        self._armed = self._call_later(max(next_ms - now_ms, 0) / 1000, self._on_due)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _on_due(self) -> None:
        self._disarm()
        try:
            for task in self._wheel.advance(self._clock.monotonic_ms()):
                _run(task.callback)
        finally:
            self._arm(self._clock.monotonic_ms())


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        logger.exception("a timer's callback failed")


class ManualTimer(Timer):
    """A timer whose time passes only by `advance`, for tests and simulation.

    >>> timer = ManualTimer()
    >>> task = timer.schedule(100, lambda: print("due"))
    >>> timer.advance(99)
    >>> timer.advance(1)
    due
    """

    __slots__ = ("clock",)

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock if clock is not None else ManualClock()
        super().__init__(self.clock, lambda _delay, _callback: _Never())

    def advance(self, ms: int) -> None:
        """Let `ms` pass on the clock, stopping at each time something is due so that callbacks see the right time.

        What callbacks schedule within the span is called as well.
        """
        end_ms = self.clock.monotonic_ms() + ms
        while (next_ms := self._wheel.next_expiry_ms()) is not None and next_ms <= end_ms:
            self.clock.advance(max(next_ms - self.clock.monotonic_ms(), 0))
            self._on_due()
        self.clock.advance(end_ms - self.clock.monotonic_ms())


class _Never:
    __slots__ = ()

    def cancel(self) -> None:
        """There is nothing to cancel."""
