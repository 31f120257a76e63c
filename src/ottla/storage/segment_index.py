"""What the indexes of a segment share: entries of one size, in memory exactly as they are in the file.

    [entry 0][entry 1]...[entry n-1]    big-endian, in the order in which they were appended

An entry cannot say that it is wrong, so after a crash the last is looked at, and only where that is not sound all are.
"""

from struct import Struct
from typing import ClassVar


class SegmentIndex:
    """The entries of one segment. A kind of index says what is in an entry."""

    ENTRY: ClassVar[Struct]

    ENTRY_BYTES: ClassVar[int]

    __slots__ = ("_base_offset", "_entries")

    def __init__(self, base_offset: int, entries: bytes | bytearray = b"", *, growing: bool = False) -> None:
        """`entries` is the content of the file; `growing` if more will be appended."""
        self._base_offset = base_offset
        self._entries = bytearray(entries) if growing else entries

    def __len__(self) -> int:
        return len(self._entries) // self.ENTRY_BYTES

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._entries)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return bytes(self._entries)

    @property
    def _is_whole(self) -> bool:
        return len(self._entries) % self.ENTRY_BYTES == 0

    def _entry(self, index: int) -> tuple[int, int]:
        """The numbers of an entry; negative indexes count from the end. Raises IndexError."""
        count = len(self)
        if index < 0:
            index += count
        if not 0 <= index < count:
            raise IndexError(index)
        first, second = self.ENTRY.unpack_from(self._entries, index * self.ENTRY_BYTES)
        return first, second

    def _first_number(self, index: int) -> int:
        number: int = self.ENTRY.unpack_from(self._entries, index * self.ENTRY_BYTES)[0]
        return number

    def _add(self, first: int, second: int) -> bytes:
        """Add an entry and return its bytes, which go to the end of the file."""
        assert isinstance(self._entries, bytearray)
        entry = self.ENTRY.pack(first, second)
        self._entries += entry
        return entry

    def _keep(self, count: int) -> None:
        """Drop the entries behind the first `count`."""
        self._entries = self._entries[: count * self.ENTRY_BYTES]

    def _whole_entries(self) -> list[tuple[int, int]]:
        return list(self.ENTRY.iter_unpack(bytes(self._entries[: len(self) * self.ENTRY_BYTES])))
