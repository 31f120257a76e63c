"""A partition on this broker: the log, its role, and the high watermark.

    log start        high watermark      written            log end
        |                  |                |                  |
        v                  v                v                  v
    ----+==================+----------------+..................+
        what consumers read | in the file    | in the queue of the log I/O thread

The high watermark is the smallest end offset over the in-sync replicas. A replica counts what it has on disk when the
broker flushes before it acknowledges (`log.flush.before.ack`, the default), and what it has written when it does not,
as Apache Kafka counts. What lies above the high watermark is never given to a consumer: nobody reads what a power cut
may take back.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo, validate_batches
from ottla.native.errors import KernelError
from ottla.replication.acknowledgement import AckQueue, AppendAck, OnAck
from ottla.replication.batch_opener import AppendQueue, BatchOpener, WaitingAppend, WritableBuffer
from ottla.replication.batch_refusal import refusal_of
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.storage.log import Log
from ottla.storage.log_read_result import LogReadResult

logger = logging.getLogger(__name__)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1

NO_EPOCH: Final = -1
"""Asks for no check of the leader epoch."""

_WHEREVER: Final = 1 << 63

UP_TO_HIGH_WATERMARK: Final = -1
"""The offset that stands for the high watermark when records are deleted."""


class Partition:
    """One partition this broker holds a replica of.

    Not for concurrent use: it belongs to the event loop. `append` and `read` never block.
    """

    __slots__ = (
        "_ack_queue",
        "_append_queue",
        "_clock",
        "_flush_before_ack",
        "_opener",
        "_tasks",
        "_waiting_for_local_end",
        "high_watermark",
        "index",
        "is_leader",
        "isr_size",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "on_high_watermark",
        "replica_count",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        log: Log,
        *,
        leader_epoch: int,
        clock: Clock,
        tasks: Tasks,
        opener: BatchOpener,
        flush_before_ack: bool,
        on_high_watermark: Callable[["Partition"], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.index = topic_partition.partition
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self.high_watermark = log.log_end_offset
        self.replica_count = 1
        self.isr_size = 1
        self.min_insync_replicas = 1
        """How many in-sync replicas acks=all asks for (`min.insync.replicas`)."""
        self.on_high_watermark = on_high_watermark
        self._clock = clock
        self._tasks = tasks
        self._flush_before_ack = flush_before_ack
        self._ack_queue = AckQueue()
        self._waiting_for_local_end: dict[asyncio.Future[None], int] = {}
        self._opener = opener
        self._append_queue: AppendQueue | None = None
        """What waits for a batch that is being opened; none while the topic never asked for that."""
        log.on_progress = self._on_log_progress

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided; readers of committed records stop here."""
        return self.high_watermark

    @property
    def unacknowledged_count(self) -> int:
        """How many appends wait for the high watermark."""
        return len(self._ack_queue)

    def require_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours (KIP-320); -1 asks for no check.

        Raises ApiError NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"{self.topic_partition} is at epoch {self.leader_epoch}")
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.topic_partition} is only at epoch {self.leader_epoch}")

    def append(
        self,
        records: WritableBuffer,
        *,
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None = None,
        from_client: bool = True,
    ) -> None:
        """Append a run of record batches; its base offsets and leader epoch are written in place.

        `on_ack` is called exactly once: with acks=1 when the records are written, with acks=-1 when they are committed,
        with acks=0 at once, and at once with an error when they are refused. `records` must stay untouched until
        `on_buffer_free`, which is called exactly once in every case. A batch that has to be opened first, and whatever
        comes while it is, waits its turn (`ottla.replication.batch_opener`).
        """
        rules = self.log.config.topic_rules
        now_ms = self._clock.now_ms()
        try:
            batches = rules.check(records, now_ms) if from_client else validate_batches(records, allow_control=True)
        except KernelError as error:
            if on_buffer_free is not None:
                on_buffer_free()
            on_ack(AppendAck.refused(refusal_of(self.topic_partition, error)))
            return
        queue = self._append_queue
        if batches is None or (queue is not None and queue.waiting):
            if queue is None:
                queue = self._append_queue = AppendQueue(self.topic_partition, self._opener, self._append_checked)
            queue.add(WaitingAppend(records, batches, rules, now_ms, acks, on_ack, on_buffer_free, from_client))
            return
        self._append_checked(records, batches, acks, on_ack, on_buffer_free, from_client)

    def _append_checked(
        self,
        records: WritableBuffer,
        batches: Sequence[BatchInfo],
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None,
        from_client: bool,
    ) -> None:
        try:
            if not self.is_leader:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
            if acks == ACKS_ALL and self.isr_size < self.min_insync_replicas:
                self._require_insync_replicas()
            if from_client and batches[0].is_transactional:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE, f"{self.topic_partition}: this broker does not serve transactions yet"
                )
            leader_ack = _LeaderAck(on_ack) if acks == ACKS_LEADER else None
            info = self.log.append(
                memoryview(records),
                batches,
                leader_epoch=self.leader_epoch,
                now_ms=self._clock.now_ms(),
                from_client=from_client,
                on_free=on_buffer_free,
                on_stage=None if leader_ack is None else leader_ack.on_stage,
                sync=self._flush_before_ack,
                report_written=acks != ACKS_ALL,
            )
        except ApiError as error:
            if on_buffer_free is not None:
                on_buffer_free()
            on_ack(AppendAck.refused(error))
            return
        ack = AppendAck(
            ErrorCode.NONE,
            None,
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
        )
        if info.duplicate and on_buffer_free is not None:
            on_buffer_free()
        if acks == ACKS_ALL:
            required_offset = info.last_offset + 1
            if required_offset <= self.high_watermark:
                on_ack(ack)
            else:
                self._ack_queue.add(required_offset, ack, on_ack)
        elif leader_ack is None or info.duplicate:
            on_ack(ack)
        else:
            leader_ack.ack = ack

    def _require_insync_replicas(self) -> None:
        """All of them are enough, whatever `min.insync.replicas` asks for (KIP-966)."""
        enough = min(self.min_insync_replicas, self.replica_count)
        if self.isr_size < enough:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {self.isr_size} in-sync replicas of {self.replica_count}, "
                f"min.insync.replicas asks for {self.min_insync_replicas}",
            )

    @property
    def local_end_offset(self) -> int:
        """The end of what this replica has as safe as it has to be: on disk, or written where nothing is flushed first.

        What followers have does not matter to it.
        """
        return self.log.flushed_end_offset if self._flush_before_ack else self.log.written_end_offset

    def local_end_reached(self, offset: int) -> asyncio.Future[None]:
        """Done when `local_end_offset` is at least `offset`, or will not be soon: stopped, or the disk failed.

        Whoever waits no longer is to complete or cancel it.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_local_end[reached] = offset
        reached.add_done_callback(self._waiting_for_local_end.pop)
        return reached

    def _complete_local_end(self, end_offset: int) -> None:
        for reached, offset in tuple(self._waiting_for_local_end.items()):
            if offset <= end_offset and not reached.done():
                reached.set_result(None)

    def _on_log_progress(self, log: Log) -> None:
        high_watermark = log.flushed_end_offset if self._flush_before_ack else log.written_end_offset
        if self._waiting_for_local_end:
            self._complete_local_end(high_watermark)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self._ack_queue.complete(high_watermark)
            self._tell_readers()

    def read(self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool) -> LogReadResult:
        """File slices of the batches from `offset` on, below `max_offset`.

        There is nothing yet between the high watermark and the log end: who was told of records there, their producer
        with acks=1, may ask for what follows before they are committed. Raises ApiError OFFSET_OUT_OF_RANGE below the
        log start and above the log end.
        """
        if offset > self.high_watermark:
            max_offset = min(max_offset, self.high_watermark)
        return self.log.read(offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)

    async def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """The batches from `offset` on up to the high watermark, read in a thread; for readers inside the broker.

        At least one whole batch, however large, when there is one; the last may be cut off. Raises as `read` does.
        """
        result = self.read(offset, max_bytes, max_offset=self.high_watermark, min_one_batch=True)
        return await self._tasks.in_thread(_bytes_of, result)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset`, -1 for the high watermark; returns where it is now, in memory only.

        Readers who wait below it are looked at again. Raises ApiError NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE.
        """
        self.require_leader_epoch(NO_EPOCH)
        if offset == UP_TO_HIGH_WATERMARK:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} is committed up to {self.high_watermark}, not {offset}",
            )
        before = self.log.log_start_offset
        log_start_offset = self.log.delete_records_before(offset)
        if log_start_offset != before:
            self._tell_readers()
        return log_start_offset

    def epoch_of_offset(self, offset: int) -> int:
        """The leader epoch `offset` was written in, or, at the log end, will be; -1 when that is not known."""
        return self.leader_epoch if offset >= self.log.log_end_offset else self.log.epoch_of_offset(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to `epoch` and the offset it ends at; (-1, -1) when `epoch` is not known here.

        The leader's own epoch begins at its log end even before anything was written in it.
        """
        latest = self.log.leader_epochs.latest_epoch
        if 0 <= epoch <= self.leader_epoch and latest <= epoch:
            written = 0 <= latest < self.leader_epoch and epoch != self.leader_epoch
            return (latest if written else epoch), self.log.log_end_offset
        return self.log.epoch_end_offset(epoch)

    def fail(self, message: str) -> None:
        """The log directory is gone: whoever waits for an acknowledgement is told so."""
        self._fail_appends(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self._complete_local_end(_WHEREVER)

    def _fail_appends(self, error: ErrorCode, message: str) -> None:
        if self._append_queue is not None:
            self._append_queue.fail(error, message)
        self._ack_queue.fail(error, message)

    def stop(self) -> None:
        """This broker no longer leads the partition, or the partition is deleted."""
        self.is_leader = False
        self.log.on_progress = None
        self._fail_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker stopped leading {self.topic_partition}")
        self._complete_local_end(_WHEREVER)
        self._tell_readers()

    def _tell_readers(self) -> None:
        """Something that readers wait for has changed."""
        try:
            self.on_high_watermark(self)
        except Exception:
            logger.exception("a reader of %s failed to hear of a change", self.topic_partition)


def _bytes_of(result: LogReadResult) -> bytes:
    """What the slices hold. BLOCKING."""
    return b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in result.slices)


class _LeaderAck:
    """Answers acks=1 when the records are written."""

    __slots__ = ("_on_ack", "ack")

    def __init__(self, on_ack: OnAck) -> None:
        self._on_ack = on_ack
        self.ack: AppendAck | None = None
        """The answer, until it is given."""

    def on_stage(self, stage: int, errno: int) -> None:
        """The log I/O thread is done with a stage of this append: 1 written, 2 synced. The first one counts."""
        del stage
        ack, self.ack = self.ack, None
        if ack is None:
            return
        if errno:
            ack = AppendAck(ErrorCode.KAFKA_STORAGE_ERROR, "the data directory failed during the write")
        try:
            self._on_ack(ack)
        except Exception:
            logger.exception("a producer could not be told what became of its records")
