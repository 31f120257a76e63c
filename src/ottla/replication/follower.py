"""The follower's part of a partition: it appends what the leader has, as it is, and hears what is committed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.error_code import ErrorCode
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import ProduceRun, walk_batches
from ottla.native.errors import KernelError
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.batch_decompressor import WritableBuffer
from ottla.replication.batch_refusal import refusal_of
from ottla.replication.in_sync_replicas import follower_high_watermark
from ottla.replication.transaction_verification import Verification
from ottla.runtime.clock import Clock
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import LeaderRun
from ottla.storage.batch_runs import runs_of
from ottla.storage.log import Log
from ottla.storage.log_append_info import LogAppendInfo

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class Follower:
    """The role of a partition that another broker leads. Belongs to the event loop; it never blocks."""

    __slots__ = ("_clock", "_leader_high_watermark", "_partition", "on_failure")

    is_replicated = True
    """Its leader decides what is committed."""
    low_watermark = -1
    """Its leader knows."""
    epoch_start_offset = 0
    """Only a leader has one."""
    unacknowledged_count = 0
    """Nobody waits for the high watermark here."""
    has_waiting = False
    """Producers write to the leader."""

    def __init__(self, partition: "Partition", clock: Clock) -> None:
        self._partition = partition
        self._clock = clock
        self._leader_high_watermark = partition.high_watermark
        self.on_failure: Callable[[], None] | None = None
        """Called when nothing can be written: who fetches on, where there is nothing new, would count as in sync."""

    def append(
        self,
        records: WritableBuffer,
        *,
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = None,
    ) -> None:
        """Refuse: producers and coordinators write to the leader."""
        del records, acks, origin, guard
        if on_buffer_free is not None:
            on_buffer_free()
        self._refuse(on_ack)

    def append_run(self, run: ProduceRun, *, on_ack: OnAck, on_buffer_free: Callable[[], None]) -> bool:
        """Each is refused by itself."""
        del run, on_ack, on_buffer_free
        return False

    def write_run(self, run: ProduceRun) -> LogAppendInfo | None:
        """Each is refused by itself."""
        del run
        return None

    def follower_fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> ErrorCode:
        """Refuse: followers fetch from the leader."""
        del broker_id, broker_epoch, offset, log_start_offset
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def append_marker(self, marker: TransactionMarker, on_ack: OnAck) -> None:
        """Refuse: the coordinator writes to the leader."""
        del marker
        self._refuse(on_ack)

    def _refuse(self, on_ack: OnAck) -> None:
        name = self._partition.topic_partition
        on_ack(AppendAck(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker is not the leader of {name}"))

    def append_from_leader(self, records: memoryview, leader_high_watermark: int) -> None:
        """Append the whole batches at the start of `records`, which the leader has at the same offsets.

        What follows the last whole batch is left: it comes again. `records` must stay as they are until they are
        written. Raises ApiError: CORRUPT_MESSAGE and the like for a batch that is broken, before anything is appended;
        OFFSET_OUT_OF_RANGE below the log end; KAFKA_STORAGE_ERROR.
        """
        partition = self._partition
        batches, _, broken = walk_batches(records, check_crc=True)
        if broken is not None and isinstance(broken, KernelError):
            raise refusal_of(partition.topic_partition, broken)
        now_ms = self._clock.now_ms()
        for run in runs_of(batches):
            start, end = run[0].position, run[-1].position + run[-1].size
            partition.log.append(
                LeaderRun(records[start:end], run),
                leader_epoch=run[0].leader_epoch,
                now_ms=now_ms,
                origin=AppendOrigin.REPLICATION,
                sync=partition.flush_before_ack,
                report_written=not partition.flush_before_ack,
            )
        self._leader_high_watermark = leader_high_watermark
        self._follow()

    def follow_log_start(self, leader_log_start_offset: int) -> None:
        """The leader's log begins there: so does this one, as far as it is committed."""
        partition = self._partition
        offset = min(leader_log_start_offset, partition.high_watermark)
        if offset > partition.log.log_start_offset:
            partition.log.delete_records_before(offset)

    def on_log_progress(self, log: Log) -> None:
        """The log got on: more of what the leader says is committed is here."""
        if self._partition.waits_for_local_end:
            self._partition.complete_local_end(self._partition.local_end_offset)
        del log
        self._follow()

    def _follow(self) -> None:
        partition = self._partition
        before = partition.high_watermark
        high_watermark = follower_high_watermark(before, partition.local_end_offset, self._leader_high_watermark)
        if high_watermark > before:
            partition.high_watermark = partition.log.high_watermark = high_watermark
            partition.changed()

    def fail(self, error: ErrorCode, message: str) -> None:
        """Nobody waits for an acknowledgement here."""
        if self.on_failure is not None:
            self.on_failure()
