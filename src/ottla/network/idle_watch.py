"""Notices that a peer has gone quiet (`connections.max.idle.ms`)."""

from collections.abc import Callable

from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask


class IdleWatch:
    """Calls `on_idle` once nothing has moved for the idle time while it was the peer's turn.

    One task of the timer, which is put off when it is due rather than whenever something moves.
    """

    __slots__ = ("_is_peers_turn", "_max_idle_ms", "_monotonic_ms", "_on_idle", "_task", "_timer", "moved_ms")

    def __init__(
        self,
        clock: Clock,
        timer: Timer,
        max_idle_ms: int,
        *,
        is_peers_turn: Callable[[], bool],
        on_idle: Callable[[], None],
    ) -> None:
        self._monotonic_ms = clock.monotonic_ms
        self._timer = timer
        self._max_idle_ms = max_idle_ms
        self._is_peers_turn = is_peers_turn
        self._on_idle = on_idle
        self._task: TimerTask | None = None
        self.moved_ms = clock.monotonic_ms()
        """When something moved last."""

    def start(self) -> None:
        """Begin to watch, unless the idle time is -1 for never."""
        if self._max_idle_ms >= 0:
            self._task = self._timer.schedule(self._max_idle_ms, self._check)

    def moved(self) -> None:
        """Something has moved."""
        self.moved_ms = self._monotonic_ms()

    def close(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _check(self) -> None:
        if not self._is_peers_turn():
            self.moved()
        left_ms = self.moved_ms + self._max_idle_ms - self._monotonic_ms()
        if left_ms > 0:
            self._task = self._timer.schedule(left_ms, self._check)
        else:
            self._on_idle()
