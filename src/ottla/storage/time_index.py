"""The sparse time index of a segment: how late the records up to an offset are.

    .timeindex    12 bytes an entry, big-endian: timestamp in ms (int64), offset relative to the base (int32)

An entry (t, o) says that no record up to offset o is later than t, and that t is the time of a record in the batch that
ends at o. Timestamps grow strictly, offsets never go back. A closed segment's last entry is its greatest timestamp.
"""

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

from ottla.storage.segment_index import SegmentIndex

NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex(SegmentIndex):
    """The entries of one segment in memory, exactly as they are in the file."""

    ENTRY = Struct(">qi")
    ENTRY_BYTES = ENTRY.size

    __slots__ = ()

    def __getitem__(self, index: int) -> TimestampOffset:
        timestamp, relative_offset = self._entry(index)
        return TimestampOffset(timestamp, self._base_offset + relative_offset)

    @property
    def last(self) -> TimestampOffset:
        """The greatest timestamp indexed; (-1, base offset) when there is none."""
        return self[-1] if len(self) else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
        index = bisect_right(range(len(self)), timestamp, key=self._first_number)
        return self[index - 1] if index else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def last_before(self, offset: int) -> TimestampOffset:
        """The last entry of an offset below `offset`; (-1, base offset) when there is none."""
        index = bisect_left(range(len(self)), offset, key=lambda index: self[index].offset)
        return self[index - 1] if index else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def maybe_append(self, timestamp: int, offset: int) -> bytes:
        """Add an entry if it is later than the last, and return its bytes; otherwise none."""
        last = self.last
        if timestamp <= last.timestamp or offset < last.offset:
            return b""
        return self._add(timestamp, offset - self._base_offset)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        count = len(self)
        while count and self[count - 1].offset >= offset:
            count -= 1
        self._keep(count)

    def looks_sound(self) -> bool:
        """A look at the first and the last entry: whole, and not going back."""
        if not self._is_whole:
            return False
        if not self._entries:
            return True
        first, last = self[0], self[-1]
        grows = len(self) == 1 or (first.timestamp < last.timestamp and first.offset <= last.offset)
        return grows and first.timestamp >= 0 and first.offset >= self._base_offset

    def truncate_to_sound(self) -> None:
        """Keep the entries up to the first that cannot be right because it goes back."""
        previous_timestamp, previous_offset = NO_TIMESTAMP, 0
        for index, (timestamp, relative_offset) in enumerate(self._whole_entries()):
            if timestamp <= previous_timestamp or relative_offset < previous_offset:
                self._keep(index)
                return
            previous_timestamp, previous_offset = timestamp, relative_offset
        self._keep(len(self))
