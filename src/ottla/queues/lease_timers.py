"""One timer for each lease of a delivery ledger: how long what was acquired together is held, or waits."""

from collections.abc import Callable
from functools import partial

from ottla.native import DeliveryLedger
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask


class LeaseTimers:
    """Of one ledger. Belongs to the event loop."""

    def __init__(self, ledger: DeliveryLedger, timer: Timer, on_over: Callable[[int, int], None]) -> None:
        """`on_over` is called with a lease and its owner when its time is up."""
        self._ledger = ledger
        self._timer = timer
        self._on_over = on_over
        self._timers: dict[int, TimerTask] = {}

    def start(self, lease: int, delay_ms: int, owner: int) -> None:
        """A lease is over after a delay."""
        self._timers[lease] = self._timer.schedule(delay_ms, partial(self._over, lease, owner))

    def cancel_ended(self) -> None:
        """Leases with nothing left need no timer: one for each would else last until the lock time."""
        for lease in self._ledger.take_ended_leases():
            timer = self._timers.pop(lease, None)
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """No lease is over any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _over(self, lease: int, owner: int) -> None:
        self._timers.pop(lease, None)
        self._on_over(lease, owner)
