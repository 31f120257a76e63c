"""Putting a log right after its broker stopped without closing it.

What lies below the recovery point was on disk and is not looked at. From there on every batch is read; at the first bad
byte the log ends: the file is cut there and later segments go. What was acknowledged as durable is below that by
construction, unless the disk itself lost it.

Without a recovery point nothing tells a torn end from damage done to what had been on disk. A segment that others
follow was whole when they were begun, so a bad byte in it is damage: it is said, and left as it is, and only the newest
segment is cut.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import CorruptSegmentError, scan_batches
from ottla.storage.file_names import INDEX_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.log_segment import LogSegment
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFile
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.segment_recovery import index_batches, walk_segment
from ottla.storage.time_index import TimeIndex

BATCHES_KEPT_MAX: Final = 256
"""More are read again rather than held: ten thousand logs that hold a few records each are what a start waits for."""


class CutTail(Struct, frozen=True):
    """What recovery took away: everything from `offset` on, `cut_bytes` in all, and why."""

    topic_partition: TopicPartition
    offset: int
    cut_bytes: int
    removed_segments: int
    reason: str

    def __str__(self) -> str:
        segments = f" with {self.removed_segments} later segments" if self.removed_segments else ""
        return f"{self.topic_partition}: cut {self.cut_bytes} bytes{segments} at offset {self.offset}: {self.reason}"


class DamagedSegment(Struct, frozen=True):
    """A segment that holds something else than it held: good up to `position`, and why no further."""

    path: str
    position: int
    end_offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged at byte {self.position}, offset {self.end_offset}: {self.reason}; "
            f"it is left as it is, `ottla log dump` shows what can be read of it"
        )


class RecoveredSegment(Struct, frozen=True):
    """What recovery knows of a segment that it went through, which need not be read again."""

    segment: LogSegment
    indexer: SegmentIndexer
    end_offset: int
    first_timestamp: int | None
    """That of the first batch; None when it was not among those that were read."""
    batches: tuple[BatchInfo, ...] | None
    """All that are in it; None when some were not read, or there are more than `BATCHES_KEPT_MAX`."""


class LogRecovery:
    """Recovers the segments of one log, in place. BLOCKING."""

    __slots__ = (
        "_disk",
        "_drops_cache",
        "_found",
        "_interval_bytes",
        "_on_batch",
        "_topic_partition",
        "_unsynced",
        "damaged",
        "newest",
        "scanned_bytes",
        "to_sync",
    )

    def __init__(
        self,
        disk: Disk,
        topic_partition: TopicPartition,
        interval_bytes: int,
        on_batch: Callable[[BatchInfo], None],
        unsynced: set[str],
        *,
        drops_cache: bool = False,
    ) -> None:
        """`on_batch` is called for every batch that was read again and found good.

        To `unsynced` come the files that were made anew and whose content is not durable yet: indexes of the newest
        segment. Until the log is closed that is as usual; before it counts as closed they must be synced.

        With `drops_cache` batches are read from the disk itself: after a sync that failed the page cache may hold some
        that are not there, and a later sync would not write them.
        """
        self._disk = disk
        self._topic_partition = topic_partition
        self._interval_bytes = interval_bytes
        self._on_batch = on_batch
        self._unsynced = unsynced
        self._drops_cache = drops_cache
        self._found: dict[str, bytes | None] = {}
        self.scanned_bytes = 0
        self.damaged: list[DamagedSegment] = []
        self.to_sync: list[str] = []
        self.newest: RecoveredSegment | None = None
        """The last segment that was recovered and is as it should be."""

    def recover(self, segments: list[LogSegment], recovery_point: int | None) -> CutTail | None:
        """Check `segments` from the recovery point on; those that go are removed from the list.

        Without a recovery point all of them are checked, and offsets may be missing between two, as after compaction.
        Indexes of what was checked are made anew where they differ. Records that were found beyond the recovery point
        may be in the page cache only, as may a cut: `to_sync` names their files, for the caller to sync before anybody
        hears of them. A power cut before that leaves a log that is recovered again.
        """
        point = segments[0].base_offset if recovery_point is None else recovery_point
        first = max((i for i, segment in enumerate(segments) if segment.base_offset <= point), default=0)
        for index in range(first, len(segments)):
            segment = segments[index]
            is_last = index + 1 == len(segments)
            may_cut = is_last or recovery_point is not None
            end_offset, cut_bytes, reason = self._recover_segment(segment, point, may_cut=may_cut, is_newest=is_last)
            if reason is None and recovery_point is not None:
                if is_last and end_offset < recovery_point:
                    reason = f"the log ends here although it was on disk up to offset {recovery_point}"
                elif not is_last and end_offset < segments[index + 1].base_offset > recovery_point:
                    reason = f"the next segment begins at offset {segments[index + 1].base_offset}"
            if reason is not None:
                return self._cut(segments, index, end_offset, cut_bytes, reason)
        return None

    def has_sound_indexes(self, segment: LogSegment) -> bool:
        """Whether the indexes of a closed segment look right; its time index has an entry if it has any records.

        Their first and last entries say so: a start does not read megabytes of index for each gigabyte of log.
        """
        offset_entries = self._first_and_last(segment.path(INDEX_SUFFIX), OffsetIndex.ENTRY_BYTES)
        time_entries = self._first_and_last(segment.path(TIME_INDEX_SUFFIX), TimeIndex.ENTRY_BYTES)
        offset_index = OffsetIndex(segment.base_offset, offset_entries)
        time_index = TimeIndex(segment.base_offset, time_entries)
        is_complete = len(time_index) > 0 or segment.size == 0
        return is_complete and offset_index.looks_sound(segment.size) and time_index.looks_sound()

    def _first_and_last(self, path: str, entry_bytes: int) -> bytes:
        """The first entry of an index and, when there are more, the last; all of a file that is no more than two."""
        file = OpenFile(self._disk, path)
        size = self._disk.size(path)
        if size <= 2 * entry_bytes or size % entry_bytes:
            return file.pread(2 * entry_bytes + 1, 0)
        return file.pread(entry_bytes, 0) + file.pread(entry_bytes, size - entry_bytes)

    def rebuild_indexes(self, segment: LogSegment) -> None:
        """Make the indexes of a closed segment again from its batches."""
        indexer = _new_indexer(segment)
        file = OpenFile(self._disk, segment.log_path)
        on_batch = index_batches(indexer, self._interval_bytes, _ignore)
        walk_segment(file, segment.size, segment.base_offset, 0, on_batch, check_crc=False)
        self.scanned_bytes += segment.size
        indexer.complete()
        self._found.clear()
        self._write_indexes(segment, indexer, is_closed=True)

    def _recover_segment(
        self, segment: LogSegment, point: int, *, may_cut: bool, is_newest: bool
    ) -> tuple[int, int, str | None]:
        """Cut one segment at its first bad byte; returns its end offset, how many bytes went, and why.

        One that may not be cut is damaged, and nothing goes.
        """
        if segment.size == 0:
            # The log file may not even exist: it is made with the first append.
            self._disk.remove(segment.path(INDEX_SUFFIX))
            self._disk.remove(segment.path(TIME_INDEX_SUFFIX))
            self._disk.remove(segment.path(TRANSACTION_INDEX_SUFFIX))
            self.newest = RecoveredSegment(segment, _new_indexer(segment), segment.base_offset, None, ())
            return segment.base_offset, 0, None
        if not self._disk.exists(segment.log_path):
            return segment.base_offset, 0, None  # nothing was ever written to it: its file is made by the first write
        if self._drops_cache:
            self._disk.drop_cache(segment.log_path)
        self._found.clear()
        indexer, position = self._trusted_indexes(segment, point)
        file = OpenFile(self._disk, segment.log_path)
        batches: list[BatchInfo] = []

        def see(batch: BatchInfo) -> None:
            if len(batches) <= BATCHES_KEPT_MAX:
                batches.append(batch)
            self._on_batch(batch)

        on_batch = index_batches(indexer, self._interval_bytes, see)
        walk = walk_segment(file, segment.size, segment.base_offset, position, on_batch)
        self.scanned_bytes += walk.position - position
        if walk.reason is not None and not may_cut:
            self.damaged.append(DamagedSegment(segment.log_path, walk.position, walk.end_offset, walk.reason))
            if not self.has_sound_indexes(segment):
                self._write_indexes(segment, indexer, is_closed=True)
            return walk.end_offset, 0, None
        cut_bytes = segment.size - walk.position
        if cut_bytes:
            self._disk.truncate(segment.log_path, walk.position)
            segment.size = walk.position
        if cut_bytes or walk.end_offset > point:
            self.to_sync.append(segment.log_path)
        indexer.complete()
        self._write_indexes(segment, indexer, is_closed=not is_newest)
        has_all = position == 0
        self.newest = RecoveredSegment(
            segment,
            indexer,
            walk.end_offset,
            batches[0].max_timestamp if has_all and batches else None,
            tuple(batches) if has_all and len(batches) <= BATCHES_KEPT_MAX else None,
        )
        return walk.end_offset, cut_bytes, walk.reason

    def _trusted_indexes(self, segment: LogSegment, point: int) -> tuple[SegmentIndexer, int]:
        """An indexer with the entries that are sound and below `point`, and the position of the last of them."""
        nothing = _new_indexer(segment), 0
        index_path, time_index_path = segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX)
        if point <= segment.base_offset:
            return nothing
        offset_entries, time_entries = self._content(index_path), self._content(time_index_path)
        if offset_entries is None or time_entries is None:
            return nothing
        offset_index = OffsetIndex(segment.base_offset, offset_entries, growing=True)
        offset_index.truncate_to_sound(segment.size)
        offset_index.truncate_to(point)
        time_index = TimeIndex(segment.base_offset, time_entries, growing=True)
        time_index.truncate_to_sound()
        if not len(offset_index) or not len(time_index):
            return nothing
        last = offset_index[-1]
        time_index.truncate_to(last.offset + 1)
        try:
            batch = next(scan_batches(OpenFile(self._disk, segment.log_path), last.position, segment.size), None)
        except CorruptSegmentError:
            return nothing
        if batch is None or batch.last_offset != last.offset:
            return nothing
        return SegmentIndexer(offset_index, time_index), last.position

    def _cut(self, segments: list[LogSegment], index: int, end_offset: int, cut_bytes: int, reason: str) -> CutTail:
        later = segments[index + 1 :]
        for segment in later:
            cut_bytes += segment.size
            for suffix in SEGMENT_SUFFIXES:
                self._disk.remove(segment.path(suffix))
        del segments[index + 1 :]
        self._disk.sync_dir(segments[index].directory)
        return CutTail(self._topic_partition, end_offset, cut_bytes, len(later), reason)

    def _write_indexes(self, segment: LogSegment, indexer: SegmentIndexer, *, is_closed: bool) -> None:
        """Replace indexes that differ; those of the newest segment become durable later."""
        for suffix, content in (
            (INDEX_SUFFIX, indexer.offset_index.to_bytes()),
            (TIME_INDEX_SUFFIX, indexer.time_index.to_bytes()),
        ):
            path = segment.path(suffix)
            if self._content(path) != content:
                if is_closed:
                    self._disk.write_atomic(path, content)
                else:
                    self._disk.write(path, content)
                    self._unsynced.add(path)

    def _content(self, path: str) -> bytes | None:
        """What an index of the segment that is being recovered held before; None without one."""
        if path not in self._found:
            try:
                self._found[path] = self._disk.read_bytes(path)
            except FileNotFoundError:
                self._found[path] = None
        return self._found[path]


def _new_indexer(segment: LogSegment) -> SegmentIndexer:
    base_offset = segment.base_offset
    return SegmentIndexer(OffsetIndex(base_offset, growing=True), TimeIndex(base_offset, growing=True))


def _ignore(batch: BatchInfo) -> None:
    del batch
