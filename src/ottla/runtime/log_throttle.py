"""Log lines that a peer can cause, at a rate, of a length and with characters that it cannot choose."""

import logging
from typing import Final

from ottla.model.printable import printable
from ottla.runtime.clock import Clock

LINE_MAX: Final = 1000
"""Characters of a line: a name that a peer sends may have 32 thousand."""


class LogThrottle:
    """Lets `lines_max` lines through in each `window_ms`, and says afterwards how many it kept back."""

    __slots__ = ("_clock", "_kept_back", "_lines", "_lines_max", "_logger", "_window_ends_ms", "_window_ms")

    def __init__(self, logger: logging.Logger, clock: Clock, *, lines_max: int = 10, window_ms: int = 10_000) -> None:
        self._logger = logger
        self._clock = clock
        self._lines_max = lines_max
        self._window_ms = window_ms
        self._window_ends_ms = 0
        self._lines = 0
        self._kept_back = 0

    def warning(self, message: str, *args: object) -> None:
        """Log a warning, or count it."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._window_ends_ms:
            self._window_ends_ms = now_ms + self._window_ms
            self._lines = 0
            if self._kept_back:
                self._logger.warning("%d more such lines were suppressed", self._kept_back)
                self._kept_back = 0
        if self._lines >= self._lines_max:
            self._kept_back += 1
            return
        self._lines += 1
        self._logger.warning("%s", printable(message % args if args else message, LINE_MAX))
