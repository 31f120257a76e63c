"""The sparse offset index of a segment: which batch lies where.

    .index    8 bytes an entry, big-endian: offset relative to the segment's base (int32), position in the .log (int32)

    base 100   (7, 0) (19, 4310) (42, 8925)
               offset 107 ends the batch at 0, 119 the one at 4310, 142 the one at 8925

An entry holds the last offset of the batch that starts at its position, and comes once per `index.interval.bytes`, so a
look-up gives a place at or before the wanted batch and the rest is a short scan. Offsets and positions grow strictly.
"""

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

from ottla.storage.segment_index import SegmentIndex

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


class OffsetPosition(NamedTuple):
    """An offset and where it lies, in bytes from the start of the segment."""

    offset: int
    position: int


class OffsetIndex(SegmentIndex):
    """The entries of one segment in memory, exactly as they are in the file."""

    ENTRY = Struct(">ii")
    ENTRY_BYTES = ENTRY.size

    __slots__ = ()

    def __getitem__(self, index: int) -> OffsetPosition:
        relative_offset, position = self._entry(index)
        return OffsetPosition(self._base_offset + relative_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the start of the segment when there is none."""
        index = bisect_right(range(len(self)), offset - self._base_offset, key=self._first_number)
        return self[index - 1] if index else OffsetPosition(self._base_offset, 0)

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry that is at or after `position`; None when there is none."""
        index = bisect_left(range(len(self)), position, key=lambda index: self[index].position)
        return self[index].offset if index < len(self) else None

    def position_at(self, position: int) -> int:
        """The last position of an entry that is not behind `position`; where the segment begins when there is none."""
        index = bisect_right(range(len(self)), position, key=self._position)
        return self._position(index - 1) if index else 0

    def append(self, offset: int, position: int) -> bytes:
        """Add an entry and return its bytes, which go to the end of the file."""
        return self._add(offset - self._base_offset, position)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        self._keep(bisect_left(range(len(self)), offset - self._base_offset, key=self._first_number))

    def looks_sound(self, log_size: int) -> bool:
        """A look at the last entry: whole, not before the first, inside a log of `log_size` bytes."""
        if not self._is_whole:
            return False
        if not self._entries:
            return True
        first, last = self[0], self[-1]
        grows = len(self) == 1 or (first.offset < last.offset and first.position < last.position)
        return grows and first.offset >= self._base_offset and 0 <= last.position < log_size

    def truncate_to_sound(self, log_size: int) -> None:
        """Keep the entries up to the first that cannot be right: not growing, or beyond a log of `log_size` bytes."""
        previous_offset, previous_position = -1, -1
        for index, (relative_offset, position) in enumerate(self._whole_entries()):
            if relative_offset <= previous_offset or position <= previous_position or position >= log_size:
                self._keep(index)
                return
            previous_offset, previous_position = relative_offset, position
        self._keep(len(self))

    def _position(self, index: int) -> int:
        position: int = self.ENTRY.unpack_from(self._entries, index * self.ENTRY_BYTES)[1]
        return position
