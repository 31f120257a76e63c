"""Finding a record by its time: the time index narrows it down to a batch, whose records are then opened.

Everything here is BLOCKING and runs off the event loop, on segments as they were when it was asked for. One that is
deleted meanwhile is passed over, as if it had been deleted before.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ottla.model.errors import InvalidInputError
from ottla.native import decode_records
from ottla.storage.batch_scan import BatchHeader, scan_batches
from ottla.storage.index_cache import IndexCache
from ottla.storage.log_segment import LogSegment
from ottla.storage.open_file import OpenFile, OpenFiles

FoundTimestamp = tuple[int, int, int]
"""Timestamp in milliseconds, offset, leader epoch."""

_DECOMPRESSED_BYTES_MAX: Final = 1 << 30
_NO_TIMESTAMP: Final = -1


class LookupRange(Struct, frozen=True):
    """Segments with the position up to which each is written, and the offsets that may be found.

    `end_offset`, like the start of what is read, is where a batch begins.
    """

    segments: tuple[tuple[LogSegment, int], ...]
    start_offset: int
    end_offset: int
    files: OpenFiles
    indexes: IndexCache

    @property
    def lost_segments(self) -> bool:
        """Whether some of the segments are gone: what was not found may be in others."""
        return any(segment.is_gone for segment, _ in self.segments)


def find_timestamp(searched: LookupRange, timestamp: int) -> FoundTimestamp | None:
    """The first record, in offset order, that is at or after `timestamp`. Raises OSError, InvalidInputError."""
    for segment, end in searched.segments:
        if end == 0 or segment.base_offset >= searched.end_offset:
            continue
        try:
            found = _find_in(searched, segment, end, timestamp)
        except (OSError, InvalidInputError):
            if not segment.is_gone:
                raise
        else:
            if found is not None:
                return found
    return None


def find_max_timestamp(searched: LookupRange) -> FoundTimestamp | None:
    """The first record that has the greatest timestamp of all. Raises OSError, InvalidInputError."""
    greatest = _NO_TIMESTAMP
    # From the end: the oldest segment is the one that may have to be read, and mostly it cannot have the greatest.
    for segment, end in reversed(searched.segments):
        if end and segment.base_offset < searched.end_offset:
            try:
                greatest = max(greatest, _max_timestamp(searched, segment, end, greatest))
            except (OSError, InvalidInputError):
                if not segment.is_gone:
                    raise
    return None if greatest == _NO_TIMESTAMP else find_timestamp(searched, greatest)


def _find_in(searched: LookupRange, segment: LogSegment, end: int, timestamp: int) -> FoundTimestamp | None:
    if segment.max_timestamp(searched.indexes).timestamp < timestamp:
        return None
    # The batch of an entry is the first that reached its timestamp: nothing before it comes into question.
    entry = segment.time_index(searched.indexes).lookup(timestamp)
    for file, batch in _batches(searched, segment, end, entry.offset):
        if batch.max_timestamp >= timestamp:
            for record_offset, record_timestamp in _records(file, batch, searched.start_offset):
                if record_timestamp >= timestamp:
                    return record_timestamp, record_offset, batch.leader_epoch
    return None


def _max_timestamp(searched: LookupRange, segment: LogSegment, end: int, known: int) -> int:
    """The greatest timestamp of the records of a segment that may be found; any other if it is not above `known`."""
    greatest = segment.max_timestamp(searched.indexes)
    if greatest.timestamp <= known:
        return known
    if segment.base_offset >= searched.start_offset:
        if greatest.offset < searched.end_offset:
            return greatest.timestamp
        # It may not be found yet. What comes before the last index entry below the end needs no second look.
        entry = segment.time_index(searched.indexes).last_before(searched.end_offset)
        found, from_offset = entry.timestamp, entry.offset
    else:
        found, from_offset = _NO_TIMESTAMP, searched.start_offset
    for file, batch in _batches(searched, segment, end, from_offset):
        if batch.max_timestamp > found:
            found = max(found, _max_timestamp_of(searched, file, batch))
    return found


def _max_timestamp_of(searched: LookupRange, file: OpenFile, batch: BatchHeader) -> int:
    if batch.base_offset >= searched.start_offset:
        return batch.max_timestamp
    return max((timestamp for _, timestamp in _records(file, batch, searched.start_offset)), default=_NO_TIMESTAMP)


def _batches(
    searched: LookupRange, segment: LogSegment, end: int, from_offset: int
) -> Iterator[tuple[OpenFile, BatchHeader]]:
    """The batches of a segment that may be found and end at or after `from_offset`, and perhaps some before."""
    position = segment.offset_index(searched.indexes).lookup(max(from_offset, searched.start_offset)).position
    file = searched.files.get(segment)
    for batch in scan_batches(file, position, end):
        if batch.base_offset >= searched.end_offset:
            return
        if batch.last_offset >= searched.start_offset:
            yield file, batch


def _records(file: OpenFile, batch: BatchHeader, start_offset: int) -> Iterator[tuple[int, int]]:
    data = file.pread(batch.size, batch.position)
    records = decode_records(
        data, max_decompressed_bytes=_DECOMPRESSED_BYTES_MAX, start_offset=start_offset, include_control=True
    )
    return ((offset, timestamp) for offset, timestamp, *_ in records)
