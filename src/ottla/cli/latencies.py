"""Latencies that were measured, and what is said of them: nearest-rank percentiles over a bounded number of samples."""

from array import array
from collections.abc import Mapping
from typing import Final

SAMPLES_MAX: Final = 100_000
"""With more, every other sample is dropped and every other measurement is passed over from then on."""

PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "max": 1.0}


class Latencies:
    """Nanoseconds in, milliseconds out.

    >>> latencies = Latencies()
    >>> for ms in range(1, 101):
    ...     latencies.add(ms * 1_000_000)
    >>> latencies.summary()["p95"], latencies.summary()["max"]
    (95.0, 100.0)
    """

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self._samples = array("q")
        self._samples_max = samples_max
        self._every = 1
        self._seen = 0
        self._longest_ns = 0

    def add(self, nanoseconds: int) -> None:
        """Count one."""
        self._seen += 1
        self._longest_ns = max(self._longest_ns, nanoseconds)
        if self._seen % self._every:
            return
        if len(self._samples) >= self._samples_max:
            self._samples = self._samples[::2]
            self._every *= 2
            return
        self._samples.append(nanoseconds)

    def summary(self) -> Mapping[str, float | None]:
        """Milliseconds by the name of the percentile; None for each when nothing was measured. The longest is exact."""
        if not self._seen:
            return dict.fromkeys(PERCENTILES)
        ordered = sorted(self._samples) or [self._longest_ns]
        found: dict[str, float | None] = {}
        for name, share in PERCENTILES.items():
            rank = max(0, -(-int(share * 1_000) * len(ordered) // 1_000) - 1)
            found[name] = _ms(ordered[min(rank, len(ordered) - 1)])
        found["max"] = _ms(self._longest_ns)
        return found


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1_000_000, 3)
