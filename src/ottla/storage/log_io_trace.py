"""Where the time of appends goes: histograms that the log I/O thread keeps, as values.

queue_us    from the first submission of a group to the moment the thread takes it
write_us    to write all of a group                         sync_us     to sync the files of a group that has any
fetch_us    from the first completion to the moment the event loop fetches it
appends     appends of a group        bytes     bytes of a group        files     files of a group that are synced
"""

from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct

Reading = tuple[str, tuple[Sequence[int], Sequence[int], int]]
"""As the kernel gives it: a name, the upper bounds of all buckets but the last, the counts, the sum of all values."""


class Histogram(Struct, frozen=True):
    """Counts by buckets: `counts[i]` is of values below `bounds[i]`, the last one of all that are larger."""

    bounds: tuple[int, ...]
    counts: tuple[int, ...]
    sum: int

    @property
    def count(self) -> int:
        """How many values."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Of all values; 0 of none."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """A value that at least `share` (0 to 1) of the values are below: the upper bound of their bucket."""
        wanted, seen = share * self.count, 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= wanted:
                return bound
        return float("inf")

    def since(self, earlier: Self) -> Self:
        """What came after an earlier reading."""
        counts = tuple(now - before for now, before in zip(self.counts, earlier.counts, strict=True))
        return type(self)(self.bounds, counts, self.sum - earlier.sum)


def histograms(readings: Iterable[Reading]) -> dict[str, Histogram]:
    """The histograms by their names."""
    return {name: Histogram(tuple(bounds), tuple(counts), total) for name, (bounds, counts, total) in readings}
