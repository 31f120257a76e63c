"""The heartbeats of a connection: how a broker and its NSQ client know that the other is there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.runtime.clock import Clock
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask

MISSED_MAX: Final = 2
"""A client from which nothing came for so many intervals is gone."""


class Heartbeat:
    """Belongs to the event loop."""

    def __init__(
        self,
        clock: "Clock",
        timer: "Timer",
        beat: Callable[[], None],
        gone: Callable[[str], None],
        is_deaf: Callable[[], bool],
    ) -> None:
        """`beat` sends a heartbeat, `gone` ends the connection of a silent client.

        One that nobody listens to, because it is over a quota (`is_deaf`), is not silent.
        """
        self._clock = clock
        self._timer = timer
        self._beat = beat
        self._gone = gone
        self._is_deaf = is_deaf
        self._interval_ms = 0
        self._heard_ms = clock.monotonic_ms()
        self._task: TimerTask | None = None

    def heard(self) -> None:
        """Something came from the client."""
        self._heard_ms = self._clock.monotonic_ms()

    def start(self, interval_ms: int) -> None:
        """Send one in so many milliseconds, and again and again; never with 0."""
        self.stop()
        self._interval_ms = interval_ms
        if interval_ms:
            self._task = self._timer.schedule(interval_ms, self._due)

    def stop(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _due(self) -> None:
        if self._is_deaf():
            self.heard()
        if self._clock.monotonic_ms() - self._heard_ms >= MISSED_MAX * self._interval_ms:
            self._gone(f"the client was silent for {MISSED_MAX} heartbeats")
        else:
            self._beat()
            self.start(self._interval_ms)
