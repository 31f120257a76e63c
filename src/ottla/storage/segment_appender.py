"""The writing side of the newest segment: positions, index entries, and when the segment is full."""

from typing import Final

from ottla.native import RecentBatches
from ottla.storage.append_run import Run
from ottla.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.log_config import LogConfig
from ottla.storage.log_io import CLOSED, SYNC, Completion
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex

_NO_HANDLE: Final = 0
_ENTRY_BYTES: Final = max(OffsetIndex.ENTRY_BYTES, TimeIndex.ENTRY_BYTES)


class SegmentAppender:
    """Appends to one segment through the log I/O thread; never blocks.

    Index entries are written without a sync, by the same thread and before the batches of a later append: after a crash
    what is missing of them is made again from the log.
    """

    __slots__ = (
        "_created_ms",
        "_first_timestamp",
        "_index_bytes",
        "_index_handle",
        "_indexer",
        "_jitter",
        "_limits_of",
        "_log_handle",
        "_recent",
        "_time_index_handle",
        "_time_max",
        "_transaction_index",
        "_transaction_index_handle",
        "_writer",
        "segment",
    )

    def __init__(
        self,
        segment: LogSegment,
        writer: LogWriter,
        *,
        created_ms: int,
        jitter: float,
        first_timestamp: int = NO_TIMESTAMP,
        indexer: SegmentIndexer | None = None,
        transaction_index: TransactionIndex | None = None,
    ) -> None:
        """Go on where the segment ends; `first_timestamp` is its first batch's, `indexer` knows its indexes and
        `transaction_index`, which is growing, its aborted transactions, None without. `jitter`,
        from 0 to below 1, is the part of `segment.jitter.ms` by which it is closed earlier.
        """
        if indexer is None:
            base_offset = segment.base_offset
            indexer = SegmentIndexer(OffsetIndex(base_offset, growing=True), TimeIndex(base_offset, growing=True))
        self.segment = segment
        self._writer = writer
        self._created_ms = created_ms
        self._jitter = jitter
        self._first_timestamp = first_timestamp
        self._indexer = indexer
        self._recent = RecentBatches(segment.size)
        self._log_handle = self._index_handle = self._time_index_handle = self._transaction_index_handle = _NO_HANDLE
        self._transaction_index = transaction_index
        self._index_bytes = self._room_needed()
        self._limits_of: LogConfig | None = None  # what `_time_max` is true of
        self._time_max = 0
        segment.keep_in_memory(indexer, self._recent)
        if transaction_index is not None:
            segment.keep_aborted(transaction_index)

    @property
    def is_open(self) -> bool:
        """Whether the thread has the files, or will."""
        return self._log_handle != _NO_HANDLE

    def must_roll(self, run: Run, last_offset: int, max_timestamp: int, now_ms: int, config: LogConfig) -> bool:
        """Whether an append of `run` up to `last_offset` needs a new segment: full, old, or out of index.

        Age is Kafka's: from the timestamp of the first batch to that of the new one; without timestamps, by the clock.
        """
        segment = self.segment
        if segment.size == 0:
            return last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        if config is not self._limits_of:
            self._find_time_max(config)
        return (
            segment.size + run.size > config.segment_bytes
            or (max_timestamp if self._first_timestamp >= 0 else now_ms) > self._time_max
            or self._index_bytes + (len(run) - 1) * _ENTRY_BYTES > config.segment_index_bytes
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        )

    def _find_time_max(self, config: LogConfig) -> None:
        """The time at which it is old enough to be closed: asked for with each append, and changed with the topic."""
        begun_ms, age_max_ms = self._first_timestamp, config.segment_ms
        if config.segment_jitter_ms:
            age_max_ms -= int(self._jitter * min(config.segment_jitter_ms, age_max_ms))
        self._time_max = (begun_ms if begun_ms >= 0 else self._created_ms) + age_max_ms
        self._limits_of = config

    def append(
        self,
        run: Run,
        records: bytes | memoryview,
        first_offset: int,
        config: LogConfig,
        log_append_time_ms: int,
        token: Completion | None,
        flags: int,
    ) -> bool:
        """Queue the batches of `run`, which have consecutive offsets from `first_offset`; `records` are their bytes.

        Without a token they are written when this returns; False, and nothing has happened, where that cannot be.
        """
        segment = self.segment
        start = segment.size
        if token is None:
            if not self._log_handle or not self._writer.write_here(self._log_handle, start, bytes(records)):
                return False
        elif not self._log_handle:
            self.open(config)
        if start == 0:
            self._first_timestamp = run.batches[0].max_timestamp if log_append_time_ms < 0 else log_append_time_ms
        indexer = self._indexer
        points = run.enter(
            first_offset, log_append_time_ms, config.index_interval_bytes, indexer.progress, self._recent
        )
        if points is not None:
            self._write_entries(*indexer.append(points))
        segment.size = start + len(records)
        if token is not None:
            self._writer.append(self._log_handle, start, records, token, flags)
        return True

    def append_aborted(self, aborted: AbortedTransaction) -> bool:
        """Queue an entry of the transaction index, after the batch that has the marker; whether it is the first one."""
        index, writer = self._transaction_index, self._writer
        is_first = index is None
        if index is None:
            index = self._transaction_index = TransactionIndex(growing=True)
            self.segment.keep_aborted(index)
        if not self._transaction_index_handle:
            self._transaction_index_handle = writer.create(self.segment.path(TRANSACTION_INDEX_SUFFIX))
        entry = index.append(aborted)
        writer.append(self._transaction_index_handle, index.size - len(entry), entry, None, 0)
        return is_first

    def open(self, config: LogConfig) -> None:
        """Have the thread make or open the files; otherwise the first append does."""
        segment, writer = self.segment, self._writer
        self._log_handle = writer.create(segment.log_path, config.segment_bytes if config.preallocate else 0)
        self._index_handle = writer.create(segment.path(INDEX_SUFFIX))
        self._time_index_handle = writer.create(segment.path(TIME_INDEX_SUFFIX))
        if self._transaction_index is not None:
            self._transaction_index_handle = writer.create(segment.path(TRANSACTION_INDEX_SUFFIX))

    def sync(self, token: Completion) -> None:
        """Make the records durable; completes as SYNC, at once if nothing was appended."""
        if self._log_handle:
            self._writer.sync(self._log_handle, token)
        else:
            token.completed(SYNC, 0)

    def close(self, token: Completion, on_let_go: Completion | None = None) -> None:
        """The segment is full, or the log closes: complete its time index and make all its files durable.

        `token` completes as SYNC when all of them are, `on_let_go` as CLOSED when the thread will not touch them again,
        which may be later; both at once if nothing was appended.
        """
        if not self._log_handle:
            token.completed(SYNC, 0)
            if on_let_go is not None:
                on_let_go.completed(CLOSED, 0)
            return
        self._write_entries(b"", self._indexer.complete())
        self._writer.sync(self._log_handle)
        self._writer.sync(self._index_handle)
        if self._transaction_index_handle:
            self._writer.sync(self._transaction_index_handle)
        self._writer.sync(self._time_index_handle, token)
        self._close_handles(on_let_go)

    def let_go_of_files(self) -> bool:
        """Close the handles; whether there were any. What was appended by them is written before that."""
        was_open = self.is_open
        if was_open:
            self._close_handles(None)
        return was_open

    def abandon(self, token: Completion) -> None:
        """Let go of the files; `token` completes as CLOSED when the thread will not touch them again."""
        if self._log_handle:
            self._close_handles(token)
        else:
            token.completed(CLOSED, 0)

    def _close_handles(self, token: Completion | None) -> None:
        self._writer.close_handle(self._log_handle)
        self._writer.close_handle(self._index_handle)
        if self._transaction_index_handle:
            self._writer.close_handle(self._transaction_index_handle)
        self._writer.close_handle(self._time_index_handle, token)
        self._log_handle = self._index_handle = self._time_index_handle = self._transaction_index_handle = _NO_HANDLE

    def _write_entries(self, offset_entry: bytes, time_entry: bytes) -> None:
        writer, indexer = self._writer, self._indexer
        if offset_entry:
            end = indexer.offset_index.size
            writer.append(self._index_handle, end - len(offset_entry), offset_entry, None, 0)
        if time_entry:
            end = indexer.time_index.size
            writer.append(self._time_index_handle, end - len(time_entry), time_entry, None, 0)
        self._index_bytes = self._room_needed()

    def _room_needed(self) -> int:
        """How large the larger index is with what an append and the end of the segment add to it."""
        indexer = self._indexer
        return max(
            indexer.offset_index.size + OffsetIndex.ENTRY_BYTES, indexer.time_index.size + 2 * TimeIndex.ENTRY_BYTES
        )
