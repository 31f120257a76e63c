"""The transaction index of a segment: the aborted transactions whose marker is in it.

    .txnindex    34 bytes an entry, big-endian: version int16 (0), producer id int64, first offset int64,
                 last offset int64 (the marker's), last stable offset int64 (right after the marker)

    A 10   B 11   A 12   A:ABORT 13   B 14   B:ABORT 15        (A, 10, 13, 11)  (B, 11, 15, 16)

Who reads committed records from a range needs those whose records may be in it, also when their marker is in a later
segment. The last stable offset ends the search: what was open when an entry was made began there or later, so an entry
whose last stable offset is not below the range has all that matter at or before it. A segment without aborted
transactions has no such file. Source: `TransactionIndex` of Apache Kafka.
"""

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.model.errors import InvalidInputError
from ottla.native import aborted_between

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
_LAST_OFFSET_AT: Final = 18


class AbortedTransaction(NamedTuple):
    """A transaction of which no record counts: its producer, its first record, its marker, and the last stable offset
    that the log had once the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        """The entry."""
        return _ENTRY.pack(_VERSION, *self)


class CorruptTransactionIndexError(InvalidInputError):
    """A transaction index holds what cannot be."""


class TransactionIndex:
    """The entries of one segment in memory, exactly as they are in the file."""

    ENTRY_BYTES: Final = _ENTRY.size

    __slots__ = ("_entries",)

    def __init__(self, entries: bytes | bytearray = b"", *, growing: bool = False) -> None:
        """`entries` is the content of the file; `growing` if more will be appended."""
        self._entries = bytearray(entries) if growing else entries

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY.size

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for _, *fields in _ENTRY.iter_unpack(self._entries[: len(self) * _ENTRY.size]):
            yield AbortedTransaction(*fields)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._entries)

    def append(self, aborted: AbortedTransaction) -> bytes:
        """Add an entry, whose marker comes after those of the others, and return its bytes for the end of the file."""
        assert isinstance(self._entries, bytearray)
        entry = aborted.encode()
        self._entries += entry
        return entry

    def between(self, start_offset: int, end_offset: int) -> tuple[list[tuple[int, int]], bool]:
        """Producer id and first offset of those with records in a range, and whether later segments have none."""
        return aborted_between(self._entries, start_offset, end_offset)

    def is_last_before(self, end_offset: int) -> bool:
        """Whether `between` ranges up to here and later segments have none: the last stable offset only moves on."""
        return len(self) > 0 and int.from_bytes(self._entries[-8:], "big", signed=True) >= end_offset

    def up_to(self, offset: int) -> bytes:
        """The entries of markers below `offset`."""
        count = bisect_left(range(len(self)), offset, key=self._last_offset)
        return bytes(self._entries[: count * _ENTRY.size])

    def require_sound(self, base_offset: int, end_offset: int) -> None:
        """Check that it can be the index of a segment with these offsets. Raises CorruptTransactionIndexError."""
        if len(self._entries) % _ENTRY.size:
            raise CorruptTransactionIndexError(
                f"{len(self._entries)} bytes are no whole number of entries of {_ENTRY.size}"
            )
        before = base_offset - 1
        for version, _, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(self._entries):
            if version != _VERSION:
                raise CorruptTransactionIndexError(f"version {version} of an entry is not known")
            if not (0 <= first_offset < last_offset and before < last_offset < end_offset and stable_offset >= 0):
                raise CorruptTransactionIndexError(
                    f"a transaction from {first_offset} to {last_offset} cannot come after one that ended at {before}, "
                    f"in a segment from {base_offset} to {end_offset}"
                )
            before = last_offset

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return bytes(self._entries)

    def _last_offset(self, index: int) -> int:
        at = index * _ENTRY.size + _LAST_OFFSET_AT
        return int.from_bytes(self._entries[at : at + 8], "big", signed=True)
