"""What a client is waiting for while it gets no further, for whoever watches it.

    key                   since      what
    broker 2              8:15:04    cannot reach a broker at b:9092: connection refused
    reading from broker 2 8:15:05    cannot reach a broker at b:9092: connection refused

A trouble begins with the first failure or with a wait. It ends with the first success under the same key.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from ottla.runtime.clock import Clock


class Trouble(Struct):
    """Since when something does not succeed, and why as of its newest failure."""

    since_ms: int
    """On the monotonic clock."""
    what: str
    error: Exception | None
    """None while the first attempt has not ended."""


class Troubles:
    """The troubles of one client. Belongs to whoever its client belongs to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._troubles: dict[Hashable, Trouble] = {}

    def note(self, key: Hashable, error: Exception) -> None:
        """An attempt has failed, and another will follow."""
        trouble = self._troubles.setdefault(key, Trouble(self._clock.monotonic_ms(), "", None))
        trouble.what, trouble.error = str(error), error

    def over(self, key: Hashable) -> None:
        """It has succeeded, or nobody wants it any more."""
        self._troubles.pop(key, None)

    @contextmanager
    def repeated(self) -> Iterator[Callable[[Exception], None]]:
        """Attempts of one call: what to call with the error of each that failed."""
        key = object()
        try:
            yield lambda error: self.note(key, error)
        finally:
            self.over(key)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A trouble for as long as something takes; a short one is none, to those who ask for lasting ones."""
        key = object()
        self._troubles[key] = Trouble(self._clock.monotonic_ms(), what, None)
        try:
            yield
        finally:
            del self._troubles[key]

    def longest(self) -> tuple[int, Trouble] | None:
        """The trouble that lasts longest, with the milliseconds that it has lasted; None when there is none."""
        if not self._troubles:
            return None
        trouble = min(self._troubles.values(), key=lambda each: each.since_ms)
        return self._clock.monotonic_ms() - trouble.since_ms, trouble
