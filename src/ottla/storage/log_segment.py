"""One segment of a log: a file of batches, and where to find an offset or a time in it.

                     base 368769                                       next segment's base 737337
.log        [368769..368810][368811..369001][369002..369002] ... [737101..737336]
.index      (41, 0)                         (233, 16390)     ...      last offset of a batch and its position
.timeindex  (1700000000123, 41)             (1700000000345, 232) ...  greatest timestamp so far and the offset it had
.txnindex   which transactions were aborted by a marker in it; there is none without
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.native import RecentBatches
from ottla.runtime.disk import Disk
from ottla.runtime.page_cache import is_in_page_cache
from ottla.storage.batch_scan import CorruptSegmentError, scan_batches
from ottla.storage.file_names import (
    LOG_SUFFIX,
    offset_file_name,
)
from ottla.storage.index_cache import IndexCache
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFiles
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.storage.transaction_index import TransactionIndex

_SCANNED_BYTES: Final = 16 * 1024
"""What a look-up reads of a segment, mostly: an index entry comes every 4 KiB, unless it is set otherwise."""

_PIECE_BYTES_MIN: Final = 8 * 1024
"""Twice the interval of index entries, unless that is set otherwise: more than half of it is of one batch."""

LookUp = Callable[[], None]


class LogSegment:
    """The reading side of a segment; `SegmentAppender` is the other one while the segment is the newest.

    A segment is itself and no other: one that is made later, with files of the same names, is not equal to it. What is
    cached of it is found by it. `is_gone` is set for good before its files are renamed, cut or removed.

    `size` counts every byte accepted, which for the newest segment may not be in the file yet. Indexes and `recent` are
    kept in memory only while it is the newest; `largest_timestamp` once it is known. `has_aborted` says whether there
    is a transaction index.
    """

    __slots__ = (
        "_indexer",
        "_largest_timestamp",
        "_modified_ms",
        "_offset_index",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "directory",
        "has_aborted",
        "is_gone",
        "recent",
        "size",
    )

    def __init__(self, directory: str, base_offset: int, size: int = 0) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.is_gone = False
        self.has_aborted = False
        self._largest_timestamp: TimestampOffset | None = None
        self._indexer: SegmentIndexer | None = None
        self.recent: RecentBatches | None = None
        self._modified_ms = -1
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None

    @property
    def largest_timestamp(self) -> TimestampOffset | None:
        """The greatest timestamp and the last offset of its batch, once it is known."""
        indexer = self._indexer  # once: the event loop may let go of it while a thread is here
        return self._largest_timestamp if indexer is None else indexer.max_timestamp

    @largest_timestamp.setter
    def largest_timestamp(self, largest: TimestampOffset | None) -> None:
        self._largest_timestamp = largest

    @property
    def log_path(self) -> str:
        """The file of batches."""
        return self.path(LOG_SUFFIX)

    def path(self, suffix: str) -> str:
        """The segment's file of a kind."""
        return f"{self.directory}/{offset_file_name(self.base_offset, suffix)}"

    def keep_in_memory(self, indexer: SegmentIndexer, recent: RecentBatches) -> None:
        """The segment grows: its indexes are in memory and ahead of their files."""
        self._offset_index, self._time_index, self.recent = indexer.offset_index, indexer.time_index, recent
        self._indexer = indexer

    def keep_aborted(self, transaction_index: TransactionIndex) -> None:
        """The segment has a transaction index, which is in memory until `release_memory`."""
        self._transaction_index = transaction_index
        self.has_aborted = True

    def keep_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """The files of the indexes are not at their paths yet."""
        self._offset_index, self._time_index = offset_index, time_index

    def release_memory(self) -> None:
        """The segment is closed: its indexes are complete in their files."""
        self._largest_timestamp, self._indexer = self.largest_timestamp, None
        self._offset_index = self._time_index = self._transaction_index = self.recent = None

    def offset_index(self, indexes: IndexCache) -> OffsetIndex:
        """The offset index. Raises OSError when it has to be read and cannot be."""
        index = self._offset_index  # once: the event loop may let go of it while a thread is here
        return indexes.offset_index(self, self.size) if index is None else index

    def time_index(self, indexes: IndexCache) -> TimeIndex:
        """The time index. Raises OSError when it has to be read and cannot be."""
        index = self._time_index
        return indexes.time_index(self) if index is None else index

    def transaction_index(self, indexes: IndexCache) -> TransactionIndex:
        """The transaction index of one that `has_aborted`. Raises OSError when it has to be read and cannot be."""
        index = self._transaction_index
        return indexes.transaction_index(self) if index is None else index

    @property
    def transaction_index_in_memory(self) -> TransactionIndex | None:
        """The transaction index while it is ahead of its file."""
        return self._transaction_index

    def transaction_index_at_hand(self, indexes: IndexCache) -> TransactionIndex | None:
        """The transaction index; None when `transaction_index` would have to read the file."""
        index = self._transaction_index
        return indexes.transaction_index_at_hand(self) if index is None else index

    def offset_from(self, position: int, indexes: IndexCache) -> int | None:
        """An offset that no batch before `position`, where one may begin, reaches; None when only the end is known."""
        if self.recent is not None:
            offset = self.recent.offset_from(position)
            if offset is not None:
                return offset
        return self.offset_index(indexes).offset_from(position)

    def look_up(self, offset: int, end: int, files: OpenFiles, indexes: IndexCache) -> LookUp | None:
        """What `find_batch` would have to wait for the disk for, to be called in a thread; None when it need not.

        Nothing that changes while the segment grows is touched in that thread. What is wrong there, `find_batch` says.
        """
        if self.recent is not None and self.recent.containing(offset) is not None:
            return None
        start: int | None = None
        if self._offset_index is not None or indexes.has_offset_index(self):
            start = self.offset_index(indexes).lookup(offset).position
            file = files.find(self)
            if file is not None and (
                start >= end or is_in_page_cache(file.fd, start, min(_SCANNED_BYTES, end - start))
            ):
                return None

        def read() -> None:
            with suppress(OSError, CorruptSegmentError):
                at = start
                if at is None:
                    at = indexes.offset_index(self, end).lookup(offset).position
                any(batch.last_offset >= offset for batch in scan_batches(files.get(self), at, end))

        return read

    def find_batch(self, offset: int, end: int, files: OpenFiles, indexes: IndexCache) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at or after `offset`, among those before position `end`."""
        if self.recent is not None:
            found = self.recent.containing(offset)
            if found is not None:
                return found if found[0] < end else None
        start = self.offset_index(indexes).lookup(offset).position
        for batch in scan_batches(files.get(self), start, end):
            if batch.last_offset >= offset:
                return batch.position, batch.size
        return None

    def position_from(self, offset: int, end: int, files: OpenFiles, indexes: IndexCache) -> int:
        """Where the first batch that starts at or after `offset` lies; `end` when none does before it."""
        if self.recent is not None:
            position = self.recent.position_from(offset)
            if position is not None:
                return min(position, end)
        start = self.offset_index(indexes).lookup(offset - 1).position
        for batch in scan_batches(files.get(self), start, end):
            if batch.base_offset >= offset:
                return batch.position
        return end

    def end_of_whole_batches(self, start: int, end: int, indexes: IndexCache) -> int:
        """Where the last batch that begins between these positions begins, as far as is known without a look at the
        file: what is behind it, up to `end`, is a piece of it. Otherwise `end`.

        The index has every batch that follows more than its interval. So where the last entry is far from `end`, that
        is the piece of a large batch; where it is near, small batches may lie between them.
        """
        position = None if self.recent is None else self.recent.position_at(end)
        if position is not None:
            return position if position >= start else end
        if self._offset_index is None and not indexes.has_offset_index(self):
            return end
        position = self.offset_index(indexes).position_at(end)
        is_piece = end - position > _PIECE_BYTES_MIN and position - start >= (end - start) // 2
        return position if is_piece else end

    def max_timestamp(self, indexes: IndexCache) -> TimestampOffset:
        """The greatest timestamp and the last offset of its batch; (-1, base offset) without. May read the index."""
        largest = self.largest_timestamp
        if largest is None:
            largest = self._largest_timestamp = self.time_index(indexes).last
        return largest

    def find_age(self, disk: Disk, indexes: IndexCache) -> None:
        """See what `newest_time` is. BLOCKING, in any thread. Raises OSError."""
        is_new = not self.size and self.recent is not None
        if self.max_timestamp(indexes).timestamp < 0 and not is_new:  # compaction may leave nothing of a closed one
            with suppress(FileNotFoundError):  # it is made with the first write
                self._modified_ms = disk.modified_ms(self.log_path)

    @property
    def newest_time(self) -> int:
        """The greatest timestamp, or when the file was last written to if its records have none; -1 if not known."""
        largest = self.largest_timestamp
        return largest.timestamp if largest is not None and largest.timestamp >= 0 else self._modified_ms
