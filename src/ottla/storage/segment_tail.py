"""Where the newest segment of a log ends, found without reading it: from its last index entry on."""

from msgspec import Struct

from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import CorruptSegmentError, scan_batches
from ottla.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ottla.storage.log_recovery import RecoveredSegment
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFile
from ottla.storage.segment_appender import SegmentAppender
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.transaction_index import TransactionIndex


class SegmentTail(Struct, frozen=True):
    """A segment whose files agree: its indexes, the offset after its last batch, the timestamp of its first."""

    segment: LogSegment
    offset_index: OffsetIndex
    time_index: TimeIndex
    end_offset: int
    first_timestamp: int = NO_TIMESTAMP

    def appender(
        self, writer: LogWriter, now_ms: int, jitter: float, transaction_index: TransactionIndex | None
    ) -> SegmentAppender:
        """Go on writing where the files end."""
        indexed_up_to = self.offset_index[-1].position if len(self.offset_index) else 0
        return SegmentAppender(
            self.segment,
            writer,
            created_ms=now_ms,
            jitter=jitter,
            first_timestamp=self.first_timestamp,
            indexer=SegmentIndexer(self.offset_index, self.time_index, self.segment.size - indexed_up_to),
            transaction_index=transaction_index,
        )


def recovered_tail(disk: Disk, recovered: RecoveredSegment) -> SegmentTail:
    """The tail of a segment that recovery went through. BLOCKING."""
    segment, indexer, timestamp = recovered.segment, recovered.indexer, recovered.first_timestamp
    if timestamp is None and segment.size:
        timestamp = next(scan_batches(OpenFile(disk, segment.log_path), 0, segment.size)).max_timestamp
    first_timestamp = NO_TIMESTAMP if timestamp is None else timestamp
    return SegmentTail(segment, indexer.offset_index, indexer.time_index, recovered.end_offset, first_timestamp)


def read_tail(disk: Disk, segment: LogSegment) -> SegmentTail | None:
    """The tail of a segment; None when its files do not come out even and it must be recovered. BLOCKING."""
    base_offset = segment.base_offset
    offset_index = OffsetIndex(base_offset, _read(disk, segment.path(INDEX_SUFFIX)), growing=True)
    time_index = TimeIndex(base_offset, _read(disk, segment.path(TIME_INDEX_SUFFIX)), growing=True)
    if not (offset_index.looks_sound(segment.size) and time_index.looks_sound()):
        return None
    if segment.size == 0:
        return SegmentTail(segment, offset_index, time_index, base_offset)
    start = offset_index[-1].position if len(offset_index) else 0
    file = OpenFile(disk, segment.log_path)
    end_position, end_offset = start, base_offset
    try:
        first = next(scan_batches(file, 0, segment.size))
        for batch in scan_batches(file, start, segment.size):
            end_position, end_offset = batch.position + batch.size, batch.last_offset + 1
    except CorruptSegmentError:
        return None
    if end_position != segment.size:
        return None
    return SegmentTail(segment, offset_index, time_index, end_offset, first.max_timestamp)


def _read(disk: Disk, path: str) -> bytes:
    try:
        return disk.read_bytes(path)
    except FileNotFoundError:
        return b""
