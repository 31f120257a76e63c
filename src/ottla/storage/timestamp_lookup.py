"""Finding a record by its time: the time index narrows it down to a batch, whose records are then opened.

Everything here is BLOCKING and runs off the event loop, on segments as they were when it was asked for.
"""

from collections.abc import Iterator
from typing import Final

from ottla.model.lazy_dataclass import dataclass
from ottla.native import decode_records
from ottla.storage.batch_scan import BatchHeader, scan_batches
from ottla.storage.index_cache import IndexCache
from ottla.storage.log_segment import LogSegment
from ottla.storage.open_file import OpenFile, OpenFiles

FoundTimestamp = tuple[int, int, int]
"""Timestamp in milliseconds, offset, leader epoch."""

_DECOMPRESSED_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class LookupRange:
    """Segments with the position up to which each is written, and the first offset that may be found."""

    segments: tuple[tuple[LogSegment, int], ...]
    start_offset: int
    files: OpenFiles
    indexes: IndexCache


def find_timestamp(searched: LookupRange, timestamp: int) -> FoundTimestamp | None:
    """The first record, in offset order, that is at or after `timestamp`. Raises OSError, CorruptSegmentError."""
    for segment, end in searched.segments:
        if end == 0 or segment.max_timestamp(searched.indexes).timestamp < timestamp:
            continue
        # The batch of an entry is the first that reached its timestamp: nothing before it comes into question.
        entry = segment.time_index(searched.indexes).lookup(timestamp)
        offset = max(entry.offset, searched.start_offset)
        start = segment.offset_index(searched.indexes).lookup(offset).position
        file = searched.files.get(segment.log_path)
        for batch in scan_batches(file, start, end):
            if batch.max_timestamp >= timestamp and batch.last_offset >= searched.start_offset:
                for record_offset, record_timestamp in _records(file, batch, searched.start_offset):
                    if record_timestamp >= timestamp:
                        return record_timestamp, record_offset, batch.leader_epoch
    return None


def find_max_timestamp(searched: LookupRange) -> FoundTimestamp | None:
    """The first record that has the greatest timestamp of all. Raises OSError, CorruptSegmentError."""
    greatest = max((s.max_timestamp(searched.indexes).timestamp for s, end in searched.segments if end), default=-1)
    found = find_timestamp(searched, greatest) if greatest >= 0 else None
    if found is None and greatest >= 0:
        # The record is not written yet, or was deleted: look at what is there.
        greatest = max((_max_timestamp(searched, *each) for each in _batches(searched)), default=-1)
        found = find_timestamp(searched, greatest) if greatest >= 0 else None
    return found


def _batches(searched: LookupRange) -> Iterator[tuple[OpenFile, BatchHeader]]:
    for segment, end in searched.segments:
        if end:
            file = searched.files.get(segment.log_path)
            for batch in scan_batches(file, 0, end):
                if batch.last_offset >= searched.start_offset:
                    yield file, batch


def _max_timestamp(searched: LookupRange, file: OpenFile, batch: BatchHeader) -> int:
    """The greatest timestamp among the records of a batch that may be found."""
    if batch.base_offset >= searched.start_offset:
        return batch.max_timestamp
    return max((timestamp for _, timestamp in _records(file, batch, searched.start_offset)), default=-1)


def _records(file: OpenFile, batch: BatchHeader, start_offset: int) -> Iterator[tuple[int, int]]:
    data = file.pread(batch.size, batch.position)
    records = decode_records(data, max_decompressed_bytes=_DECOMPRESSED_BYTES_MAX, start_offset=start_offset)
    return ((offset, timestamp) for offset, timestamp, *_ in records)
