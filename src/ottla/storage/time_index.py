"""The sparse time index of a segment: how late the records up to an offset are.

    .timeindex    12 bytes an entry, big-endian: timestamp in ms (int64), offset relative to the base (int32)

An entry (t, o) says that no record up to offset o is later than t, and that t is the time of a record in the batch that
ends at o. Timestamps grow strictly, offsets never go back. A closed segment's last entry is its greatest timestamp.
"""

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

_ENTRY: Final = Struct(">qi")
NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex:
    """The entries of one segment in memory, exactly as they are in the file."""

    ENTRY_BYTES: Final = _ENTRY.size

    __slots__ = ("_base_offset", "_entries")

    def __init__(self, base_offset: int, entries: bytes | bytearray = b"", *, growing: bool = False) -> None:
        """`entries` is the content of the file; `growing` if more will be appended."""
        self._base_offset = base_offset
        self._entries = bytearray(entries) if growing else entries

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY.size

    def __getitem__(self, index: int) -> TimestampOffset:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        timestamp, relative_offset = _ENTRY.unpack_from(self._entries, index * _ENTRY.size)
        return TimestampOffset(timestamp, self._base_offset + relative_offset)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._entries)

    @property
    def last(self) -> TimestampOffset:
        """The greatest timestamp indexed; (-1, base offset) when there is none."""
        return self[-1] if len(self) else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
        index = bisect_right(range(len(self)), timestamp, key=self._timestamp)
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
        assert isinstance(self._entries, bytearray)
        entry = _ENTRY.pack(timestamp, offset - self._base_offset)
        self._entries += entry
        return entry

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        count = len(self)
        while count and self[count - 1].offset >= offset:
            count -= 1
        self._entries = self._entries[: count * _ENTRY.size]

    def looks_sound(self) -> bool:
        """A look at the first and the last entry: whole, and not going back."""
        if len(self._entries) % _ENTRY.size:
            return False
        if not self._entries:
            return True
        first, last = self[0], self[-1]
        grows = len(self) == 1 or (first.timestamp < last.timestamp and first.offset <= last.offset)
        return grows and first.timestamp >= 0 and first.offset >= self._base_offset

    def truncate_to_sound(self) -> None:
        """Keep the entries up to the first that cannot be right because it goes back."""
        previous_timestamp, previous_offset = NO_TIMESTAMP, 0
        whole = bytes(self._entries[: len(self) * _ENTRY.size])
        for index, (timestamp, relative_offset) in enumerate(_ENTRY.iter_unpack(whole)):
            if timestamp <= previous_timestamp or relative_offset < previous_offset:
                self._entries = self._entries[: index * _ENTRY.size]
                return
            previous_timestamp, previous_offset = timestamp, relative_offset
        self._entries = self._entries[: len(whole)]

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return bytes(self._entries)

    def _timestamp(self, index: int) -> int:
        timestamp: int = _ENTRY.unpack_from(self._entries, index * _ENTRY.size)[0]
        return timestamp
