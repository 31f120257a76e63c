"""Walking the batches of a segment file by their headers, without reading the records.

position  0           8            12     16  17    21          23             27         35
          base offset batch length epoch magic crc  attributes  last offset d. base time  max time ...
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.model.errors import InvalidInputError
from ottla.storage.open_file import OpenFile

_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = _HEADER.size
LENGTH_PREFIX_BYTES: Final = 12
_MAGIC: Final = 2
_CHUNK_BYTES: Final = 8192


class CorruptSegmentError(InvalidInputError):
    """A segment file holds something that is no batch where one must be."""


class BatchHeader(NamedTuple):
    """Where a batch lies and what its header says: offsets, times in milliseconds, sizes in bytes."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int


def scan_batches(file: OpenFile, position: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the batches from `position`, where one starts, up to `end`, where one ends.

    Raises CorruptSegmentError, and OSError as reading does.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.pread(min(_CHUNK_BYTES, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptSegmentError(f"the file ends inside the batch header at position {position}")
        (base_offset, length, leader_epoch, magic, _, _, last_offset_delta, _, max_timestamp, *_) = _HEADER.unpack_from(
            chunk, at
        )
        size = LENGTH_PREFIX_BYTES + length
        if magic != _MAGIC or size < HEADER_BYTES or last_offset_delta < 0:
            raise CorruptSegmentError(f"there is no batch at position {position}")
        if position + size > end:
            raise CorruptSegmentError(
                f"the batch at position {position} claims {size} bytes, {end - position} are left"
            )
        last_offset = base_offset + last_offset_delta
        yield BatchHeader(position, size, base_offset, last_offset, leader_epoch, max_timestamp)
        position += size
