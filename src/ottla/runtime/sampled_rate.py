"""How much happens in a second, measured over the last few windows of time, and by how much that is too much.

    |  window  |  window  |  window  |  window, not over |
    oldest                                             now

The measure is Kafka's (`SampledStat`, `Rate`): what the windows hold, by the time since the oldest of them began; while
there are fewer windows than are to be kept, as if the others had been there and empty. So a client may spend what its
rate allows for all of the windows at once, and has to be quiet afterwards until the rate over them is what it may be.
Without `counts_missing` it is Kafka's `SimpleRate`: the time since the oldest window began, one window at least. The
rate then holds from the first window on; replication is measured so.
"""

from array import array
from typing import Final

from msgspec import Struct


class Windows(Struct, frozen=True):
    """How many windows are kept, the one that is not over included, and how long one is in milliseconds."""

    count: int = 11
    size_ms: int = 1_000
    counts_missing: bool = True
    """Whether windows that have yet to begin count as empty ones before the oldest."""


LONGEST_MS: Final = 2**31 - 1
"""Nobody is asked to wait for longer: answers carry times of 32 bits."""


class SampledRate:
    """What somebody did lately. Times are of a clock that does not go back."""

    __slots__ = ("_starts_ms", "_totals", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._starts_ms = array("q")
        self._totals = array("d")
        """What each window holds, beside when it began: there may be thousands of rates."""

    def record(self, value: float, now_ms: int) -> None:
        """Count something that happens now; a negative value takes back what was recorded."""
        self._forget(now_ms)
        if not self._starts_ms or now_ms - self._starts_ms[-1] >= self._windows.size_ms:
            self._starts_ms.append(now_ms)
            self._totals.append(0.0)
        self._totals[-1] += value

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was recorded within the windows."""
        self._forget(now_ms)
        return not any(total > 0 for total in self._totals)

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """For how long nothing more is to happen so that the rate falls to `bound` a second; 0 when it is not above."""
        self._forget(now_ms)
        if not self._starts_ms:
            return 0
        span_ms = self._span_ms(now_ms)
        total = sum(self._totals)
        if total * 1_000 <= bound * span_ms:
            return 0
        if not self._windows.counts_missing:  # while it waits the span is that of the first window
            span_ms = now_ms - self._starts_ms[0]
        return round(min(total * 1_000 / bound - span_ms, LONGEST_MS))

    def left(self, bound: float, now_ms: int) -> int:
        """How much more may happen now without a rate above `bound` a second."""
        self._forget(now_ms)
        if not self._starts_ms:
            windows = self._windows.count - 1 if self._windows.counts_missing else 1
            return int(bound * max(windows, 1) * self._windows.size_ms / 1_000)
        return max(int(bound * self._span_ms(now_ms) / 1_000 - sum(self._totals)), 0)

    def _span_ms(self, now_ms: int) -> int:
        size_ms, elapsed_ms = self._windows.size_ms, now_ms - self._starts_ms[0]
        if not self._windows.counts_missing:
            return max(elapsed_ms, size_ms)
        missing = self._windows.count - 1 - elapsed_ms // size_ms
        return max(elapsed_ms + max(missing, 0) * size_ms, size_ms)

    def _forget(self, now_ms: int) -> None:
        """Drop the windows that began too long ago."""
        starts_ms, oldest_ms = self._starts_ms, now_ms - self._windows.count * self._windows.size_ms
        gone = 0
        while gone < len(starts_ms) and starts_ms[gone] <= oldest_ms:
            gone += 1
        if gone:
            del starts_ms[:gone], self._totals[:gone]
