"""The log of a partition.

    log start            flushed            written            log end
        |                   |                  |                  |
    [  segment  ][  segment  ][  segment, the newest ............]
        on disk             | in the file      | queued for the log I/O thread

Appends get their offsets at once and are written, in this order, by the log I/O thread; `written_end_offset` and
`flushed_end_offset` follow as it gets on. Readers get what is written.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import Run
from ottla.storage.batch_scan import CorruptSegmentError
from ottla.storage.file_names import PARTITION_METADATA, TRANSACTION_INDEX_SUFFIX
from ottla.storage.log_append_info import LogAppendInfo
from ottla.storage.log_config import LONG_MAX, LogConfig, TimestampType
from ottla.storage.log_io import SYNC, WRITTEN
from ottla.storage.log_read_result import NOTHING_READ, LogReadResult
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment, LookUp
from ottla.storage.log_segments import LogEnd, LogSegments
from ottla.storage.log_state import LogState
from ottla.storage.partition_metadata import format_partition_metadata
from ottla.storage.pending_append import OnFree, OnStage, PendingAppend, Signal, completion
from ottla.storage.producer_snapshots import ProducerSnapshots
from ottla.storage.producer_state import ProducerBatch
from ottla.storage.retention import count_expired
from ottla.storage.segment_appender import SegmentAppender
from ottla.storage.timestamp_lookup import FoundTimestamp, LookupRange, find_max_timestamp, find_timestamp
from ottla.storage.transaction_index import AbortedTransaction

_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_REPLICATION: Final = AppendOrigin.REPLICATION
_WRITTEN_AND_SYNC: Final = WRITTEN | SYNC
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class Log:
    """One partition's records on disk. Belongs to the event loop; `append` and `read` never wait for the disk to write.

    After a crash a log holds everything below `flushed_end_offset` as it was last reported, and possibly more.
    """

    __slots__ = (
        "_all_let_go",
        "_appender",
        "_closed",
        "_identity_is_durable",
        "_is_deleted",
        "_resources",
        "_segments",
        "_segments_closing",
        "_syncing_offset",
        "_unsynced_indexes",
        "config",
        "directory",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_progress",
        "on_range_change",
        "opened_end_offset",
        "producers",
        "snapshots",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        directory: str,
        config: LogConfig,
        resources: LogResources,
        state: LogState,
        *,
        identity_is_durable: bool = True,
    ) -> None:
        """`identity_is_durable`: whether a power cut leaves the file with the topic id; not yet that of a new log."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.on_progress: Callable[[Log], None] | None = None
        self.on_range_change: Callable[[], None] | None = None
        """Called when the log begins later than before, or was loaded again and may end earlier."""
        self.high_watermark = LONG_MAX
        """What is committed, where other replicas have a say in it: what is above is neither compacted nor expired."""
        self.last_flush_ms: int | None = None
        """When a sync was last asked for; None when nobody knows."""
        self._resources = resources
        self._closed = self._is_deleted = False
        self._segments_closing = 0
        self._all_let_go: asyncio.Future[None] | None = None
        self._identity_is_durable = identity_is_durable
        self._adopt(state)

    def _adopt(self, state: LogState) -> None:
        self._segments = LogSegments(state.segments, state.log_end_offset, self._resources)
        self._appender = state.appender
        self.leader_epochs = state.leader_epochs
        self.producers = state.producers
        self.producers.move_to(self._resources.producers)
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.opened_end_offset = state.log_end_offset
        """Where it ended when this process opened it: what is from there on was written since."""
        self._syncing_offset = state.log_end_offset
        # Recovery may have written the index of the newest segment, and did not wait for the disk.
        newest = state.segments[-1]
        self._unsynced_indexes = {newest: state.log_end_offset - 1} if newest.has_aborted else {}
        self.snapshots = ProducerSnapshots(self.directory, self._resources.writer, state.snapshot_offset)

    @property
    def segments(self) -> LogSegments:
        """The segments, oldest first; the last one grows."""
        return self._segments

    @property
    def written_end_offset(self) -> int:
        """The offset after the last record that is in its file."""
        return self._segments.written.offset

    @property
    def flushed_end_offset(self) -> int:
        """The offset after the last record that is known to be on disk: the recovery point."""
        return self._segments.flushed.offset

    @property
    def size(self) -> int:
        """Bytes of all segments, without indexes, what is queued included."""
        return sum(segment.size for segment in self._segments)

    @property
    def is_writable(self) -> bool:
        """Whether its data directory takes writes."""
        return self._resources.writer.failure is None

    @property
    def is_settled(self) -> bool:
        """Whether the files are as the log has them, and nobody has them open for writing."""
        return not (self._closed or self._appender.is_open) and self.flushed_end_offset == self.log_end_offset

    def append(
        self,
        run: Run,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        on_free: OnFree | None = None,
        on_stage: OnStage | None = None,
        sync: bool = True,
        report_written: bool = True,
        transaction_version: int = 0,
        is_plain: bool = False,
        at_once: bool = False,
    ) -> LogAppendInfo | None:
        """Append `run`; writes offsets and epoch into its batches.

        Its records must stay untouched until `on_free` is called, once, or `on_stage`: with (1, errno) once they are
        written and then, with `sync`, with (2, errno) once they are on disk. Who syncs and does not care for the first
        may leave it out with `report_written=False`: it costs as much as the second. Neither is called for a duplicate.

        From the leader come batches of one epoch that follow each other without a gap, at or after the log end
        (`LeaderRun`).

        An append that reaches `flush.messages` is synced without `sync`, and reported only once it is.

        `is_plain` is for requests of many producers: None is returned, and nothing has happened, where it is not all
        of them in one go: for a new segment or leader epoch, a sync that nobody asked for, a duplicate. With `at_once`,
        which is without a sync and without callbacks, everything is written when this returns; None is returned as well
        where something is still to be written, or the log I/O thread is to write this. What is returned is of all.

        What a coordinator or the leader writes may be larger than a segment, and has one to itself then.

        Raises ApiError: KAFKA_STORAGE_ERROR; for clients RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE; for coordinators the latter two and TRANSACTION_COORDINATOR_FENCED,
        where `transaction_version` is that of the markers; from the leader OFFSET_OUT_OF_RANGE below the log end. What
        the topic asks of batches (`LogConfig.topic_rules`) was checked before.
        """
        if self._closed or self._resources.writer.failure is not None:
            self._require_writable()
        config, first_offset, size = self.config, self.log_end_offset, run.size
        if at_once and self._segments.written.offset != first_offset:
            return None
        if origin is _REPLICATION:
            first_offset = self._offset_of_leader(run.batches[0].base_offset)
        end_offset = first_offset + run.record_count
        is_stamped = config.message_timestamp_type is _LOG_APPEND_TIME and origin is not _REPLICATION
        stamp, max_timestamp = (now_ms, now_ms) if is_stamped else (-1, run.max_timestamp)
        begins_segment = self._appender.must_roll(run, end_offset - 1, max_timestamp, now_ms, config)
        begins_epoch = leader_epoch > self.leader_epochs.latest_epoch
        is_sync_due = not sync and end_offset - self._syncing_offset >= config.flush_messages
        is_first_sync = (sync or is_sync_due) and not self._identity_is_durable
        if is_plain and (begins_segment or begins_epoch or is_sync_due or is_first_sync):
            return None
        batches = run.batches if run.is_idempotent else None
        first_time = self._admit(size, batches, origin, transaction_version)
        if first_time is not None:
            return None if is_plain else self._duplicate(first_time)
        records = run.assign(first_offset, leader_epoch, stamp)
        if begins_segment or begins_epoch:
            self._begin(first_offset, leader_epoch, now_ms, is_new_segment=begins_segment)
        if is_sync_due:
            sync, report_written = True, False
            self._syncing_offset, self.last_flush_ms = end_offset, now_ms
        if is_first_sync:
            self._make_identity_durable()
        appender = self._appender
        end = LogEnd(end_offset, appender.segment.size + size)
        token = None if at_once else PendingAppend(self, end, on_free, on_stage)
        flags = (_WRITTEN_AND_SYNC if report_written else SYNC) if sync else WRITTEN
        if not appender.append(run, records, first_offset, config, stamp, token, flags):
            return None
        if at_once:
            self._segments.written = end
        if batches is not None and (aborted := self.producers.remember(batches, first_offset, stamp, now_ms)):
            self._note_aborted(aborted)
        self.log_end_offset = end_offset
        self.snapshots.bytes_since += size
        return LogAppendInfo(first_offset, end_offset - 1, stamp, self.log_start_offset, max_timestamp)

    def _admit(
        self, size: int, batches: Sequence[BatchInfo] | None, origin: AppendOrigin, transaction_version: int
    ) -> ProducerBatch | None:
        """Check that batches of producers come next; what became of one that was sent before. Raises ApiError."""
        if origin is not _CLIENT:
            if batches is not None and origin is _COORDINATOR:
                self.producers.admit_from_coordinator(batches, transaction_version)
            return None
        first_time = None if batches is None else self.producers.admit(batches)
        if first_time is None and size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes exceed the maximum configured segment size, {self.config.segment_bytes}",
            )
        return first_time

    def _begin(self, first_offset: int, leader_epoch: int, now_ms: int, *, is_new_segment: bool) -> None:
        """A segment begins there, or a leader epoch, or both."""
        if is_new_segment:
            self._roll(now_ms)
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)

    def _note_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Enter transactions, whose markers were just appended, in the index."""
        for each in aborted:
            if self._appender.append_aborted(each):
                self._segments.newest_has_aborted()
            self._unsynced_indexes[self._appender.segment] = each.last_offset

    def unsynced_transaction_indexes(self) -> list[str]:
        """The transaction indexes that may hold entries that are not on disk."""
        return [segment.path(TRANSACTION_INDEX_SUFFIX) for segment in self._unsynced_indexes if not segment.is_gone]

    def transaction_indexes_synced(self, offset: int) -> None:
        """The entries of markers below `offset` are on disk, or gone."""
        synced = [segment for segment, marker_offset in self._unsynced_indexes.items() if marker_offset < offset]
        for segment in synced:
            del self._unsynced_indexes[segment]

    def _offset_of_leader(self, first_offset: int) -> int:
        if first_offset < self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} ends at {self.log_end_offset}, the leader's records begin at {first_offset}",
            )
        return first_offset

    def _duplicate(self, first_time: ProducerBatch) -> LogAppendInfo:
        """What became of a batch when it was sent the first time."""
        stamped = self.config.message_timestamp_type is _LOG_APPEND_TIME
        return LogAppendInfo(
            first_time.first_offset,
            first_time.last_offset,
            first_time.timestamp if stamped else -1,
            self.log_start_offset,
            first_time.timestamp,
            duplicate=True,
        )

    def _require_writable(self) -> None:
        failure = self._resources.writer.failure
        if failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the data directory is offline: {failure}")
        if self._closed:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is being closed, truncated or deleted"
            )

    def _roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end; the files are made and the old ones synced by the log I/O thread."""
        end_offset = self.log_end_offset
        old = self._appender.segment

        def on_synced(errno: int) -> None:
            if errno == 0:
                old.release_memory()
                if self.flushed_end_offset < end_offset:
                    self.advance(SYNC, LogEnd(end_offset, 0))

        self.take_snapshot()
        self._make_identity_durable()
        self._segments_closing += 1
        self._appender.close(Signal(on_synced), Signal(self._on_let_go))
        segment = LogSegment(self.directory, end_offset)
        jitter = self._resources.rng.random()
        self._appender = SegmentAppender(segment, self._resources.writer, created_ms=now_ms, jitter=jitter)
        # Last: threads that go through the segments find its indexes in memory; the files come with the first append.
        self._segments.append(segment)
        self._syncing_offset, self.last_flush_ms = end_offset, now_ms

    def _on_let_go(self, errno: int) -> None:
        """The thread will not touch the files of a closed segment again, whether or not it got them to disk."""
        del errno
        self._segments_closing -= 1
        if not self._segments_closing and self._all_let_go is not None:
            self._all_let_go.set_result(None)
            self._all_let_go = None

    async def _until_let_go(self) -> None:
        """Return when the thread has let go of all closed segments. One caller at a time."""
        while self._segments_closing:
            self._all_let_go = asyncio.get_running_loop().create_future()
            await self._all_let_go

    def _make_identity_durable(self) -> None:
        """Have the thread sync the file with the topic id before it reports the first records as synced.

        It goes by the handles of files, so one that is open already gets another, after that of this file.
        """
        if self._identity_is_durable:
            return
        was_open = self._appender.let_go_of_files()
        writer = self._resources.writer
        handle = writer.create(f"{self.directory}/{PARTITION_METADATA}")
        writer.append(handle, 0, format_partition_metadata(self.topic_id), None, SYNC)
        writer.close_handle(handle)
        self._identity_is_durable = True
        if was_open:
            self._appender.open(self.config)

    @property
    def is_deleted(self) -> bool:
        """Whether the log is gone for good."""
        return self._is_deleted

    def replace_segments(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """Read `new` from now on in the place of closed neighbours; whoever still reads those can finish.

        The caller holds the log's name, and changes the names of the files.
        """
        self._segments.replace(old, new)
        self._resources.retire(old)

    def take_snapshot(self) -> None:
        """Write down the producers as they are now, so that a later start need not find them in the log."""
        self.snapshots.take(self.log_end_offset, self.producers)

    def advance(self, stage: int, end: LogEnd) -> None:
        """Everything before `end` is written or flushed."""
        segments = self._segments
        if stage == WRITTEN:
            segments.written = end
        else:
            segments.flushed = end
            if segments.written.offset < end.offset:
                segments.written = end
        self._resources.writer.progressed[self] = None

    def report_progress(self) -> None:
        """Tell `on_progress`, once per round of completions."""
        if self.on_progress is not None:
            self.on_progress(self)

    def look_up(self, offset: int) -> LookUp | None:
        """What `read` would have to wait for the disk for, to be called in a thread before; None when nothing."""
        if not self.log_start_offset <= offset < self.written_end_offset:
            return None
        return self._segments.look_up(offset)

    def read(self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool = True) -> LogReadResult:
        """File slices that hold the batches from the one that contains `offset` on, up to `max_offset` and `max_bytes`.

        With `min_one_batch` the first batch comes whole however large it is; without, one that does not fit is left out
        and so is what follows. Batches that reach beyond `max_offset`, or
        are not written yet, are left out. Raises ApiError OFFSET_OUT_OF_RANGE below the log start and above the log
        end, KAFKA_STORAGE_ERROR when a file cannot be read, CORRUPT_MESSAGE when it holds something else.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} holds offsets {self.log_start_offset} to {self.log_end_offset}, not {offset}",
            )
        end_offset = min(max_offset, self._segments.written.offset)
        if offset >= end_offset:
            return NOTHING_READ
        try:
            return self._segments.read(offset, max_bytes, end_offset, min_one_batch=min_one_batch)
        except (OSError, CorruptSegmentError) as error:
            raise self._unreadable(error) from error

    def aborted_in(self, read: LogReadResult, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions whose records may be in what a read from
        `start_offset` up to `end_offset` gave. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        try:
            return self._segments.aborted_in(read, start_offset, end_offset)
        except OSError as error:
            raise self._unreadable(error) from error

    def look_up_aborted(self, offset: int, max_bytes: int) -> LookUp | None:
        """What `aborted_in` would have to wait for the disk for after a read of so many bytes, to be called in a thread
        before; None when nothing.
        """
        return self._segments.look_up_aborted(offset, max_bytes)

    @property
    def stable_end_offset(self) -> int:
        """Below it everything is on disk, and every transaction that has records there is decided and committed."""
        first_unstable = self.producers.unstable.first_offset
        end_offset = min(self.flushed_end_offset, self.high_watermark)
        return end_offset if first_unstable is None else min(first_unstable, end_offset)

    async def offset_for_timestamp(
        self, timestamp: int, end_offset: Callable[[], int] | None = None
    ) -> FoundTimestamp | None:
        """Timestamp, offset and leader epoch of the first record at or after `timestamp` (ms), among those below
        `end_offset`, where a batch begins, and among all that are written without.

        Raises ApiError UNKNOWN_TOPIC_OR_PARTITION when the log is deleted meanwhile, and as `read` does.
        """
        return await self._search(lambda searched: find_timestamp(searched, timestamp), end_offset)

    async def max_timestamp_offset(self, end_offset: Callable[[], int] | None = None) -> FoundTimestamp | None:
        """The same for the first record with the greatest timestamp (KIP-734); None when there are no records."""
        return await self._search(find_max_timestamp, end_offset)

    async def _search(
        self, search: Callable[[LookupRange], FoundTimestamp | None], end_offset: Callable[[], int] | None
    ) -> FoundTimestamp | None:
        """Search in a thread, again when what was searched was replaced or went away with what it was to find.

        A log that is being truncated is not searched again and again until that is over.
        """
        while True:
            if self._is_deleted:
                raise self._deleted()
            segments, failure, found = self._segments, None, None
            searched = self._lookup_range(self.written_end_offset if end_offset is None else end_offset())
            try:
                found = await self._resources.in_thread(search, searched)
            except (OSError, InvalidInputError) as error:
                failure = error
            if self._is_deleted or segments is not self._segments:
                continue
            if failure is not None:
                raise self._unreadable(failure) from failure
            if found is not None or not searched.lost_segments:
                return found
            if self._closed:
                raise self._in_change()

    def _lookup_range(self, end_offset: int) -> LookupRange:
        segments = tuple(zip(self._segments, self._segments.written_sizes(), strict=True))
        return LookupRange(segments, self.log_start_offset, end_offset, self._resources.files, self._resources.indexes)

    def _unreadable(self, error: OSError | InvalidInputError) -> ApiError:
        if self._is_deleted:
            return self._deleted()
        if self._segments.newest.is_gone:
            return self._in_change()
        is_corrupt = isinstance(error, InvalidInputError)
        code = ErrorCode.CORRUPT_MESSAGE if is_corrupt else ErrorCode.KAFKA_STORAGE_ERROR
        return ApiError(code, f"{self.topic_partition}: {error}")

    def _in_change(self) -> ApiError:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is being truncated")

    def _deleted(self) -> ApiError:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} is deleted")

    def epoch_of_offset(self, offset: int) -> int:
        """The leader epoch `offset` was written in, or would be; -1 when that is not known."""
        return self.leader_epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to `epoch` and the offset it ends at; (-1, -1) when `epoch` is not known here."""
        return self.leader_epochs.end_offset(epoch, self.log_end_offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset`, -1 for the written end; returns where it is now. Segments go with retention.

        Raises ApiError OFFSET_OUT_OF_RANGE above the written end.
        """
        if offset < 0:
            offset = self.written_end_offset
        if offset > self.written_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.topic_partition} ends at offset {self.written_end_offset}"
            )
        self._move_log_start(offset)
        return self.log_start_offset

    def expired_count(self, now_ms: int) -> int:
        """How many segments `expire_segments` would take out."""
        written = self.flushed_end_offset if self.config.flush_before_ack else self.written_end_offset
        done = min(written, self.high_watermark)
        facts = [fact for fact in self._segments.facts(self.log_end_offset) if fact.end_offset <= done]
        count = count_expired(facts, self.log_start_offset, now_ms, self.config)
        return count if count < len(self._segments) or self._segments.newest.size else count - 1

    async def expire_segments(self, now_ms: int) -> list[LogSegment]:
        """Take the segments that are to be deleted out of the log; the caller, who holds the log, removes their files.

        The thread has let go of those files by then: it opens what it closed in between again, by the path, and makes
        what is not there.

        When even the newest is too old a new one is begun first. Only what is committed goes, and flushed, or written
        if the broker does not flush before it acknowledges. Segments are as old as `prepare_expiry` found them.
        """
        count = self.expired_count(now_ms)
        if count == len(self._segments):
            if self._segments.newest.size and self._resources.writer.failure is None and not self._closed:
                self._roll(now_ms)
                self._appender.open(self.config)
            else:
                count -= 1
        expired = self._segments.remove_oldest(count)
        if expired:
            self._move_log_start(self._segments[0].base_offset)
            await self._until_let_go()
        return expired

    def prepare_expiry(self) -> None:
        """Read what `expire_segments` needs to know. BLOCKING, in any thread. Raises OSError."""
        self._segments.find_ages()

    def _move_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producers.unstable.committed(offset)
            if self.on_range_change is not None:
                self.on_range_change()

    async def flush(self) -> None:
        """Make everything appended so far durable. Raises ApiError KAFKA_STORAGE_ERROR."""
        self._require_writable()
        end = LogEnd(self.log_end_offset, self._segments.newest.size)
        self._syncing_offset = end.offset
        if self._appender.is_open:
            self._make_identity_durable()
        await self._until(self._appender.sync)
        if self._segments.flushed.offset < end.offset:
            self.advance(SYNC, end)

    async def close(self) -> None:
        """Write and sync everything and let go of the files. Appends are refused from now on; reads go on."""
        self._closed = True
        if self._appender.is_open:
            self._make_identity_durable()
        await self._until(self._appender.close)

    async def abandon(self) -> None:
        """Let go of the files once what is queued is written. Appends are refused from now on; reads go on."""
        self._closed = True
        await self._until(self._appender.abandon)
        await self._until_let_go()

    async def abandon_for_good(self) -> None:
        """The log is deleted: as `abandon`, and reads are refused as well; nothing of it is read from disk any more."""
        self._is_deleted = True
        self._resources.retire(self._segments)
        try:
            await self.abandon()
        finally:
            self.producers.leave()

    def reopen(self, state: LogState) -> None:
        """Go on with what was loaded again after `abandon`."""
        self._resources.retire(self._segments)
        self.producers.leave()
        self._adopt(state)
        self._closed = False
        if self.on_range_change is not None:
            self.on_range_change()
        self._resources.writer.moved(self)

    def move(
        self, directory: str, resources: LogResources, state: LogState, *, identity_is_durable: bool = True
    ) -> None:
        """Read the same records in another directory from now on, after `abandon`; appends wait for `take_appends`.

        What is known of producers and epochs beyond the records stays known.
        """
        self._resources.retire(self._segments)
        state.producers, state.leader_epochs = self.producers, self.leader_epochs
        self.directory, self._resources = directory, resources
        self._identity_is_durable = identity_is_durable
        self._adopt(state)
        if self.on_range_change is not None:
            self.on_range_change()

    def take_appends(self) -> None:
        """The files are where they stay."""
        self._closed = False
        self.report_progress()

    async def _until(self, operation: Callable[[Signal], None]) -> None:
        errno = await completion(operation)
        if errno:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {os.strerror(errno)}")
