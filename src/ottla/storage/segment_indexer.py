"""The indexes of a segment that grows, and when the next entry is due."""

from ottla.native import ProduceRun
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex, TimestampOffset


class SegmentIndexer:
    """Both indexes of one segment, in memory; told of every batch, live and in recovery."""

    __slots__ = ("_bytes_since_entry", "max_timestamp", "offset_index", "time_index")

    def __init__(self, offset_index: OffsetIndex, time_index: TimeIndex, bytes_since_entry: int = 0) -> None:
        """Go on with indexes that can grow; `bytes_since_entry` is what the log has after the last entry's position."""
        self.offset_index = offset_index
        self.time_index = time_index
        self.max_timestamp = time_index.last
        self._bytes_since_entry = bytes_since_entry

    def add(
        self, position: int, size: int, last_offset: int, timestamp: int, interval_bytes: int
    ) -> tuple[bytes, bytes]:
        """A batch that ends at `last_offset` and lies at `position`; returns the entries to write, empty when none.

        As in Kafka an entry comes before the first batch after more than `interval_bytes` without one.
        """
        if timestamp > self.max_timestamp.timestamp:
            self.max_timestamp = TimestampOffset(timestamp, last_offset)
        entries = b"", b""
        if self._bytes_since_entry > interval_bytes:
            entries = self.offset_index.append(last_offset, position), self.complete()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        return entries

    def add_run(
        self, run: ProduceRun, base_offset: int, position: int, log_append_time_ms: int, interval_bytes: int
    ) -> tuple[bytes, bytes]:
        """`add` for each batch of a run, the first of which has `base_offset` and lies at `position`."""
        points, self._bytes_since_entry, *latest = run.index_points(
            base_offset, position, log_append_time_ms, interval_bytes, self._bytes_since_entry, *self.max_timestamp
        )
        entries = time_entries = b""
        for last_offset, at, *latest_there in points:
            self.max_timestamp = TimestampOffset(*latest_there)
            entries += self.offset_index.append(last_offset, at)
            time_entries += self.complete()
        self.max_timestamp = TimestampOffset(*latest)
        return entries, time_entries

    def complete(self) -> bytes:
        """Enter the greatest timestamp so far in the time index; returns the entry, empty when it is there already."""
        return self.time_index.maybe_append(*self.max_timestamp)
