"""The transactions that keep readers of committed records back: open ones, and those whose marker is not committed.

offsets          10      11      12      13          14        15          high watermark 14
                 A       B       B       B:COMMIT    C         A:ABORT
open             C 14
ended            A 10..15                                                  B is not here: its marker is committed
last stable      10, the first offset of A

The last stable offset is the first of these transactions' first offsets, or the high watermark without any (KIP-98).
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable


class UnstableTransactions:
    """Those of one log, by their first offsets. Belongs to the event loop."""

    __slots__ = ("_ended", "_ended_by_marker", "_open", "count")

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        """With the first offsets of the transactions that are open."""
        self._open = sorted(first_offsets)
        self._ended: list[int] = []
        self._ended_by_marker: deque[tuple[int, int]] = deque()
        self.count = len(self._open)
        """How many there are."""

    @property
    def first_offset(self) -> int | None:
        """The first offset of the oldest of them."""
        if self._open and (not self._ended or self._open[0] < self._ended[0]):
            return self._open[0]
        return self._ended[0] if self._ended else None

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._open)

    def begin(self, first_offset: int) -> None:
        """A transaction has its first record at the end of the log."""
        insort(self._open, first_offset)
        self.count += 1

    def end(self, first_offset: int, marker_offset: int) -> int:
        """The marker of an open transaction is written; returns the last stable offset once that is committed."""
        place = bisect_left(self._open, first_offset)
        assert self._open[place] == first_offset, "who ends a transaction has begun it"
        del self._open[place]
        insort(self._ended, first_offset)
        self._ended_by_marker.append((marker_offset, first_offset))
        return self._open[0] if self._open else marker_offset + 1

    def committed(self, offset: int) -> None:
        """Everything below `offset` is committed, or is not part of the log any more."""
        ended = self._ended_by_marker
        while ended and ended[0][0] < offset:
            _, first_offset = ended.popleft()
            del self._ended[bisect_left(self._ended, first_offset)]
            self.count -= 1
