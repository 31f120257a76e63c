"""Reading a segment again from a position on: every batch is checked, the indexes are made anew.

before    [ batch ][ batch ][ batch ][ batch ][ ba            index entries for some of them, or lost
              ^ last index entry below the recovery point
walk                        [ CRC ok ][ CRC ok ] x            stops at the first bad byte
after     [ batch ][ batch ][ batch ][ batch ]
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.native import BatchInfo, walk_batches
from ottla.storage.batch_scan import HEADER_BYTES, LENGTH_PREFIX_BYTES
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX
from ottla.storage.open_file import OpenFile
from ottla.storage.segment_indexer import SegmentIndexer

_CHUNK_BYTES: Final = 4 << 20

OnBatch = Callable[[BatchInfo], None]


class SegmentWalk(Struct, frozen=True):
    """How far a segment is good: the position and the offset after the last good batch, and why no further."""

    position: int
    end_offset: int
    reason: str | None


def walk_segment(
    file: OpenFile,
    size: int,
    base_offset: int,
    position: int,
    on_batch: Callable[[int, BatchInfo], None],
    *,
    check_crc: bool = True,
) -> SegmentWalk:
    """Call `on_batch(position, batch)` for each good batch of a segment of `size` bytes from `position` on. BLOCKING.

    A batch is good when it is whole, its header makes sense, its CRC is right and its offsets follow the one before.
    """
    end_offset = base_offset
    chunk_bytes = _CHUNK_BYTES
    while position < size:
        chunk = file.pread(min(chunk_bytes, size - position), position)
        batches, consumed, error = walk_batches(chunk, check_crc=check_crc)
        for batch in batches:
            reason = _misplaced(batch, base_offset, end_offset)
            if reason is not None:
                return SegmentWalk(position + batch.position, end_offset, reason)
            on_batch(position + batch.position, batch)
            end_offset = batch.last_offset + 1
        position += consumed
        if error is not None:
            return SegmentWalk(position, end_offset, str(error))
        if consumed == 0:
            announced = _announced_size(chunk)
            if announced is None or position + announced > size:
                return SegmentWalk(position, end_offset, "the file ends inside a batch")
            if announced <= len(chunk):
                return SegmentWalk(position, end_offset, "there is no batch")
            chunk_bytes = announced
        else:
            chunk_bytes = _CHUNK_BYTES
    return SegmentWalk(position, end_offset, None)


def index_batches(indexer: SegmentIndexer, interval_bytes: int, then: OnBatch) -> Callable[[int, BatchInfo], None]:
    """What `walk_segment` is to do with each batch: index it, then whatever else is wanted."""

    def on_batch(position: int, batch: BatchInfo) -> None:
        indexer.add(position, batch.size, batch.last_offset, batch.max_timestamp, interval_bytes)
        then(batch)

    return on_batch


def _misplaced(batch: BatchInfo, base_offset: int, end_offset: int) -> str | None:
    if batch.base_offset < end_offset:
        return f"a batch at offset {batch.base_offset} comes after offset {end_offset - 1}"
    if batch.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        return f"offset {batch.last_offset} is too far from the segment's base {base_offset}"
    return None


def _announced_size(chunk: bytes) -> int | None:
    if len(chunk) < HEADER_BYTES:
        return None
    return LENGTH_PREFIX_BYTES + int.from_bytes(chunk[8:12], "big", signed=True)
