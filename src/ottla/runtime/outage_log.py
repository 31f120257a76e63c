"""The log lines of something that fails again and again: one when it begins, fewer and fewer while it lasts, one after.

fails at   0 s   5 s   10 s   15 s   20 s   25 s   30 s  ...  works
logged     yes          yes                         yes         yes
"""

import logging
from typing import Final

from ottla.model.printable import printable
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LINE_MAX

FIRST_MS: Final = 10_000
"""How long after its first line an outage is told again; each further line takes twice as long."""
INTERVAL_MS_MAX: Final = 600_000


class OutageLog:
    """The outages of one thing, which follow each other."""

    __slots__ = ("_began_ms", "_clock", "_interval_ms", "_logger", "_next_ms")

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._began_ms: int | None = None
        self._next_ms = 0
        self._interval_ms = FIRST_MS

    def failed(self, message: str, *args: object) -> None:
        """It has failed, for this reason: log a warning when it is time for one."""
        now_ms = self._clock.monotonic_ms()
        lasted = ""
        if self._began_ms is None:
            self._began_ms, self._next_ms, self._interval_ms = now_ms, now_ms, FIRST_MS
        elif now_ms < self._next_ms:
            return
        else:
            lasted = f" (for {(now_ms - self._began_ms) // 1000} s)"
            self._interval_ms = min(2 * self._interval_ms, INTERVAL_MS_MAX)
        self._next_ms = now_ms + self._interval_ms
        self._logger.warning("%s%s", printable(message % args if args else message, LINE_MAX), lasted)

    def over(self, message: str, *args: object) -> None:
        """It works: say so, with how long it did not, when it had failed before."""
        if self._began_ms is None:
            return
        lasted_ms = self._clock.monotonic_ms() - self._began_ms
        self._began_ms = None
        text = printable(message % args if args else message, LINE_MAX)
        self._logger.info("%s, after %.1f s", text, lasted_ms / 1000)
