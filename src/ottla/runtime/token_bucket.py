"""A token bucket (KIP-599): tokens come in at a rate, up to a limit, and are taken as needed, also on credit."""

from ottla.runtime.sampled_rate import LONGEST_MS, Windows


class TokenBucket:
    """Full at first. It holds what its rate gives in all of `windows`. Times are of a clock that does not go back."""

    __slots__ = ("_refilled_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = float("inf")  # as full as the rate allows, which may change
        self._refilled_ms = 0

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens; there may be fewer than none afterwards. A negative count gives tokens back."""
        self._refill(rate, now_ms)
        self._tokens = min(self._tokens - count, self._limit(rate))

    def debt_ms(self, rate: float, now_ms: int) -> int:
        """How long it takes until there are no fewer than none; 0 when that is so."""
        self._refill(rate, now_ms)
        return round(min(-self._tokens / rate * 1_000, LONGEST_MS)) if self._tokens < 0 else 0

    def _refill(self, rate: float, now_ms: int) -> None:
        elapsed_ms = now_ms - self._refilled_ms
        self._tokens = min(self._tokens + rate * elapsed_ms / 1_000, self._limit(rate))
        self._refilled_ms = now_ms

    def _limit(self, rate: float) -> float:
        return rate * self._windows.count * self._windows.size_ms / 1_000
