"""The indexes of a segment that grows, and when the next entry is due."""

from collections.abc import Iterable

from ottla.native import IndexProgress
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex, TimestampOffset


class SegmentIndexer:
    """Both indexes of one segment, in memory; told of every batch, live and in recovery."""

    __slots__ = ("offset_index", "progress", "time_index")

    def __init__(self, offset_index: OffsetIndex, time_index: TimeIndex, bytes_since_entry: int = 0) -> None:
        """Go on with indexes that can grow; `bytes_since_entry` is what the log has after the last entry's position."""
        self.offset_index = offset_index
        self.time_index = time_index
        self.progress = IndexProgress(bytes_since_entry, *time_index.last)
        """How far they have got, for a run that is entered (`Run.enter`)."""

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The greatest timestamp so far, and the last offset of the batch that has it."""
        return TimestampOffset(*self.progress.max_timestamp)

    def add(
        self, position: int, size: int, last_offset: int, timestamp: int, interval_bytes: int
    ) -> tuple[bytes, bytes]:
        """A batch that ends at `last_offset` and lies at `position`; returns the entries to write, empty when none.

        As in Kafka an entry comes before the first batch after more than `interval_bytes` without one.
        """
        if self.progress.add(size, last_offset, timestamp, interval_bytes):
            return self.offset_index.append(last_offset, position), self.complete()
        return b"", b""

    def append(self, points: Iterable[tuple[int, int, int, int]]) -> tuple[bytes, bytes]:
        """The entries to write of what `Run.enter` says has one."""
        entries = time_entries = b""
        for last_offset, position, *latest in points:
            entries += self.offset_index.append(last_offset, position)
            time_entries += self.time_index.maybe_append(*latest)
        return entries, time_entries

    def complete(self) -> bytes:
        """Enter the greatest timestamp so far in the time index; returns the entry, empty when it is there already."""
        return self.time_index.maybe_append(*self.max_timestamp)
