"""How long to try and how long to wait between attempts."""

from msgspec import Struct

from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng

_JITTER = 0.2


class Backoff(Struct, frozen=True):
    """Exponential back-off with jitter (KIP-580): `initial_ms`, then twice as much each time, up to `maximum_ms`.

    Each wait is drawn from 20 % around its nominal value, so that clients that failed together do not return together.
    """

    initial_ms: int
    maximum_ms: int

    def delay_ms(self, attempt: int, rng: Rng) -> int:
        """How long to wait after the failed attempt number `attempt`, counted from 0."""
        nominal = min(self.initial_ms << min(attempt, 30), self.maximum_ms)
        return round(nominal * rng.uniform(1 - _JITTER, 1 + _JITTER))


class Deadline:
    """A point in time after which nothing is tried again."""

    __slots__ = ("_at_ms", "_clock", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self.timeout_ms = timeout_ms
        self._at_ms = clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int:
        """Milliseconds that remain, 0 when it has passed."""
        return max(self._at_ms - self._clock.monotonic_ms(), 0)

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self._clock.monotonic_ms() >= self._at_ms
