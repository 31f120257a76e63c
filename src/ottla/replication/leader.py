"""The leader's part of a partition: it appends what producers and coordinators send, and says when it is committed.

append --> checked, opened in a thread if the topic asks for that --> log --> written --> on disk --> committed
                                                                          acks=1                  acks=all
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.transaction_marker import EPOCH_FOR_EACH, TransactionMarker
from ottla.native import BatchInfo, ProduceRun, validate_batches
from ottla.native.errors import KernelError
from ottla.records.control import ControlRecordType, EndTransactionMarker
from ottla.replication.acknowledgement import AckQueue, AppendAck, OnAck
from ottla.replication.batch_decompressor import AppendQueue, BatchDecompressor, WaitingAppend, WritableBuffer
from ottla.replication.batch_refusal import refusal_of
from ottla.replication.held_appends import HeldAppend
from ottla.replication.transaction_verification import NO_VERIFICATIONS, Verification
from ottla.runtime.clock import Clock
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import BatchRun, Run
from ottla.storage.log import Log
from ottla.storage.log_append_info import LogAppendInfo

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

logger = logging.getLogger(__name__)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1

_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_NONE: Final = ErrorCode.NONE


class Leader:
    """The role of a partition that this broker leads. Belongs to the event loop; `append` never blocks."""

    __slots__ = ("_ack_queue", "_append_queue", "_clock", "_opener", "_partition")

    is_replicated = False
    """Whether other brokers have replicas: they fetch what is written, so it is reported as soon as it is."""

    def __init__(self, partition: "Partition", clock: Clock, opener: BatchDecompressor) -> None:
        self._partition = partition
        self._clock = clock
        self._opener = opener
        self._ack_queue = AckQueue()
        self._append_queue: AppendQueue | None = None
        """What waits for a batch that is being opened; none while the topic never asked for that."""

    def take_over(self, before: "Leader") -> None:
        """Go on for a leader of the same partition, in its epoch or the next, with those who wait there."""
        self._ack_queue, self._append_queue = before._ack_queue, before._append_queue

    @property
    def low_watermark(self) -> int:
        """The lowest log start of the replicas that are alive: nothing below it comes back (KIP-107)."""
        return self._partition.log.log_start_offset

    @property
    def unacknowledged_count(self) -> int:
        """How many appends wait for the high watermark."""
        return len(self._ack_queue)

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
        """Append a run of record batches; its base offsets and leader epoch are written in place.

        `on_ack` is called exactly once: with acks=1 when the records are written, with acks=-1 when they are committed,
        with acks=0 at once, and at once with an error when they are refused. `records` must stay untouched until
        `on_buffer_free`, which is called exactly once in every case. A batch that has to be opened first, and whatever
        comes while it is, waits its turn (`ottla.replication.batch_decompressor`).

        `guard` comes with transactional records of a client: they are appended when their transaction is open, or may
        begin because of it (`ottla.replication.transaction_verification`). A coordinator without one vouches for them.
        """
        rules = self._partition.log.config.topic_rules
        now_ms = self._clock.now_ms()
        try:
            batches = (
                rules.check(records, now_ms) if origin is _CLIENT else validate_batches(records, allow_control=True)
            )
        except KernelError as error:
            if on_buffer_free is not None:
                on_buffer_free()
            on_ack(AppendAck.refused(refusal_of(self._partition.topic_partition, error)))
            return
        queue = self._append_queue
        if batches is None or (queue is not None and queue.waiting):
            if queue is None:
                name = self._partition.topic_partition
                queue = self._append_queue = AppendQueue(name, self._opener, self._append_checked)
            queue.add(WaitingAppend(records, batches, rules, now_ms, acks, on_ack, on_buffer_free, origin, guard))
            return
        self._append_checked(records, batches, acks, on_ack, on_buffer_free, origin, guard, 0, now_ms)

    def append_run(self, run: ProduceRun, *, on_ack: OnAck, on_buffer_free: Callable[[], None]) -> bool:
        """Append the batches of many requests; those are taken out of `run` that have something wrong with them.

        True: `on_ack` is called once for all of them, as `append` would for the last, with the base offset of the
        first, and never before this returns; `on_buffer_free` when their records are no longer needed. False: nothing
        has happened, and each is to be appended by itself.
        """
        if not self._takes_runs:
            return False
        now_ms = self._clock.now_ms()
        run.check(self._partition.log.config.topic_rules, now_ms)
        if not len(run):
            return False
        try:
            return self._append_to_log(run, run.acks, on_ack, on_buffer_free, now_ms, is_plain=True)
        except ApiError:
            return False

    def write_run(self, run: ProduceRun) -> LogAppendInfo | None:
        """`append_run` of all that is in `run`, over when this returns: written, and committed by that.

        None, and nothing has happened, where it is not all, or more is needed: others have replicas, records are to be
        on disk first, or something before them is not committed.
        """
        partition = self._partition
        log = partition.log
        if (
            self.is_replicated
            or partition.flush_before_ack
            or partition.high_watermark != log.log_end_offset
            or not self._takes_runs
        ):
            return None
        now_ms = self._clock.now_ms()
        if not run.check(log.config.topic_rules, now_ms):
            return None
        try:
            self._require_open(run.acks)
            info = log.append(
                run, leader_epoch=partition.leader_epoch, now_ms=now_ms, sync=False, is_plain=True, at_once=True
            )
        except ApiError:
            return None
        if info is not None:
            self._commit_up_to(info.last_offset + 1)
        return info

    @property
    def has_waiting(self) -> bool:
        """Whether batches of producers have been checked, and are not in the log yet."""
        return not self._takes_runs

    @property
    def _takes_runs(self) -> bool:
        """Whether nothing waits that appends have to wait behind."""
        queue = self._append_queue
        return self._partition.held is None and (queue is None or not queue.waiting)

    def _require_open(self, acks: int) -> None:
        """Who may append now. Raises ApiError NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS."""
        partition = self._partition
        if not partition.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker is not the leader of {partition.topic_partition}"
            )
        if acks == ACKS_ALL and partition.isr_size < partition.min_insync_replicas:
            self._require_insync_replicas()

    def append_marker(self, marker: TransactionMarker, on_ack: OnAck) -> None:
        """See `Partition.append_marker`. It does not wait for batches that are opened: its transaction is over."""
        kind = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
        batch = EndTransactionMarker(kind, marker.coordinator_epoch).to_batch(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        batches = validate_batches(batch, allow_control=True)
        self._append_checked(batch, batches, ACKS_ALL, on_ack, None, _COORDINATOR, None, marker.transaction_version)

    def _append_checked(
        self,
        records: WritableBuffer,
        batches: Sequence[BatchInfo],
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None,
        origin: AppendOrigin,
        guard: Verification | None,
        transaction_version: int = 0,
        now_ms: int | None = None,
    ) -> None:
        """Append what has its turn: at `now_ms`, or now."""
        partition = self._partition
        if partition.held is not None and (origin is not _CLIENT or not partition.held.is_full):
            again = partial(
                self._append_checked,
                *(records, batches, acks, on_ack, on_buffer_free, origin, guard, transaction_version, now_ms),
            )
            partition.held.add(HeldAppend(again, on_ack, on_buffer_free))
            return
        run = BatchRun(records if type(records) is memoryview else memoryview(records), batches)
        try:
            self._append_to_log(
                run,
                acks,
                on_ack,
                on_buffer_free,
                self._clock.now_ms() if now_ms is None else now_ms,
                origin=origin,
                guard=guard,
                transaction_version=transaction_version,
            )
        except ApiError as error:
            if on_buffer_free is not None:
                on_buffer_free()
            on_ack(AppendAck.refused(error))

    def _append_to_log(
        self,
        run: Run,
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = None,
        transaction_version: int = 0,
        is_plain: bool = False,
    ) -> bool:
        """Append a run that is checked and has its turn; `on_ack` is told of it as `append` says.

        False, and nothing has happened, where it is to be plain and is not (`Log.append`). Raises ApiError when it is
        refused; nobody is told then.
        """
        partition = self._partition
        self._require_open(acks)
        if guard is not None or (not is_plain and origin is _CLIENT and run.batches[0].is_transactional):
            partition.verifications.require(run.batches[0], guard, partition.log.producers)
        leader_ack = _LeaderAck(on_ack) if acks == ACKS_LEADER else None
        info = partition.log.append(
            run,
            leader_epoch=partition.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            on_free=on_buffer_free,
            on_stage=None if leader_ack is None else leader_ack.on_stage,
            sync=partition.flush_before_ack,
            report_written=acks != ACKS_ALL or self.is_replicated,
            transaction_version=transaction_version,
            is_plain=is_plain,
        )
        if info is None:
            return False
        if partition.verifications is not NO_VERIFICATIONS:
            self._forget_verifications(run.batches, transaction_version)
        ack = AppendAck(_NONE, None, info.first_offset, info.log_append_time_ms, info.log_start_offset)
        if info.duplicate and on_buffer_free is not None:
            on_buffer_free()
        if acks == ACKS_ALL:
            required_offset = info.last_offset + 1
            if required_offset <= partition.high_watermark:
                on_ack(ack)
            else:
                self._ack_queue.add(required_offset, ack, on_ack)
        elif leader_ack is None or info.duplicate:
            on_ack(ack)
        else:
            leader_ack.ack = ack
        return True

    def _forget_verifications(self, batches: Sequence[BatchInfo], transaction_version: int) -> None:
        """Transactions of these batches have begun here, or ended."""
        verifications = self._partition.verifications
        for batch in batches:
            if not batch.is_transactional:
                continue
            if transaction_version >= EPOCH_FOR_EACH:
                verifications.end_before(batch.producer_id, batch.producer_epoch)
            else:
                verifications.forget(batch.producer_id)

    def _require_insync_replicas(self) -> None:
        partition = self._partition
        if partition.is_short_of_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.topic_partition} has fewer in-sync replicas than required: the size of the ISR, "
                f"{partition.isr_size} of {partition.replica_count}, is insufficient for min.insync.replicas="
                f"{partition.min_insync_replicas}",
            )

    @property
    def epoch_start_offset(self) -> int:
        """The offset up to which everything must be committed before anybody is told where the log ends (KIP-207)."""
        return 0

    def is_in_sync(self, broker_id: int) -> bool:
        """Whether a replica is in the ISR."""
        del broker_id
        return True

    def follower_fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> ErrorCode:
        """Nobody else has a replica of this partition, as far as this broker has heard."""
        del broker_id, broker_epoch, offset, log_start_offset
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def on_log_progress(self, log: Log) -> None:
        """The log got on: more may be committed."""
        is_synced_first = self._partition.flush_before_ack
        self._commit_up_to(log.flushed_end_offset if is_synced_first else log.written_end_offset)

    def _commit_up_to(self, high_watermark: int) -> None:
        partition = self._partition
        if partition.waits_for_local_end:
            partition.complete_local_end(high_watermark)
        if high_watermark > partition.high_watermark:
            partition.high_watermark = high_watermark
            if self._ack_queue.waiting:
                self._ack_queue.complete(high_watermark)
            partition.changed()

    def fail(self, error: ErrorCode, message: str) -> None:
        """Answer everybody who waits with an error; whether their records survive is not known."""
        if self._append_queue is not None:
            self._append_queue.fail(error, message)
        self._ack_queue.fail(error, message)


class _LeaderAck(Struct, eq=False):
    """Answers acks=1 when the records are written."""

    on_ack: OnAck
    ack: AppendAck | None = None
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
            self.on_ack(ack)
        except Exception:
            logger.exception("could not acknowledge records to a producer")
