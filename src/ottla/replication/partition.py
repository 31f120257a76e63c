"""A partition on this broker: the log, its role, and the high watermark.

    log start        high watermark      written            log end
        |                  |                |                  |
        v                  v                v                  v
    ----+==================+----------------+..................+
        what consumers read | in the file    | in the queue of the log I/O thread

Consumers of committed records read up to the last stable offset: the high watermark, or the first record of the oldest
transaction that is open, or whose marker is above the high watermark.

The high watermark is the smallest end offset over the in-sync replicas. A replica counts what it has on disk when the
broker flushes before it acknowledges (`log.flush.before.ack`, the default), and what it has written when it does not,
as Apache Kafka counts. What lies above the high watermark is never given to a consumer: nobody reads what a power cut
may take back.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.replication.acknowledgement import OnAck
from ottla.replication.batch_decompressor import BatchDecompressor, WritableBuffer
from ottla.replication.held_appends import HeldAppends
from ottla.replication.leader import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Leader
from ottla.replication.transaction_verification import (
    NO_VERIFICATIONS,
    TransactionVerifications,
    Verification,
)
from ottla.replication.truncation import epoch_end
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.log import Log
from ottla.storage.log_config import LONG_MAX
from ottla.storage.log_read_result import LogReadResult

if TYPE_CHECKING:
    from ottla.replication.follower import Follower

__all__ = ["ACKS_ALL", "ACKS_LEADER", "ACKS_NONE", "NO_EPOCH", "UP_TO_HIGH_WATERMARK", "Partition", "WritableBuffer"]

logger = logging.getLogger(__name__)

OnChange: TypeAlias = Callable[["Partition"], None]
"""Called in the event loop with the partition that changed; one that raises is logged and keeps nobody else from it."""

NO_EPOCH: Final = -1
"""Asks for no check of the leader epoch."""

_WHEREVER: Final = 1 << 63

UP_TO_HIGH_WATERMARK: Final = -1
"""The offset that stands for the high watermark when records are deleted."""


class Partition:
    """One partition this broker holds a replica of: its log, what is committed of it, and its role, a leader at first.

    Not for concurrent use: it belongs to the event loop. `append` and `read` never block.
    """

    __slots__ = (
        "_clock",
        "_opener",
        "_subscribers",
        "_tasks",
        "flush_before_ack",
        "held",
        "high_watermark",
        "index",
        "is_in_sync",
        "is_leader",
        "is_throttled",
        "isr_size",
        "last_stable_offset",
        "leader_epoch",
        "leader_id",
        "log",
        "min_insync_replicas",
        "partition_epoch",
        "replica_count",
        "role",
        "throttles_followers",
        "topic_id",
        "topic_partition",
        "verifications",
        "version",
        "waits_for_local_end",
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
        opener: BatchDecompressor,
        flush_before_ack: bool,
        high_watermark: int | None = None,
    ) -> None:
        """`high_watermark` is what is known to be committed; None for a partition that is nowhere else: all of it, and
        this broker leads it.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.index = topic_partition.partition
        self.log = log
        is_alone = high_watermark is None
        if high_watermark is None:
            high_watermark = log.log_end_offset
        self.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        self.last_stable_offset = self.high_watermark
        """The offset below which every transaction is decided; readers of committed records stop here."""
        self.replica_count = 1
        self.isr_size = 1
        self.min_insync_replicas = 1
        """How many in-sync replicas acks=all asks for (`min.insync.replicas`)."""
        self.flush_before_ack = flush_before_ack
        self.version = 0
        """Rises with anything a reader could notice: the high watermark, the last stable offset, the log start, an end
        that moved back, who leads and since when. Who has read at a version and finds it again need not read again."""
        self.verifications = NO_VERIFICATIONS
        """Of transactions that are about to begin."""
        self.held: HeldAppends | None = None
        """What waits while the files of the log change places."""
        self.waits_for_local_end: dict[asyncio.Future[None], int] = {}
        self._clock = clock
        self._tasks = tasks
        self._opener = opener
        self._subscribers: tuple[OnChange, ...] = ()
        self.partition_epoch = -1
        """Of the decision of the controller that holds; -1 before the first, when a partition that may have other
        replicas waits for its role. What is older is passed over."""
        self.leader_id = -1
        """Who leads, where the controller said it; -1 for nobody."""
        self.is_in_sync = True
        """Whether this replica is in the ISR, where the controller said it."""
        self.throttles_followers = False
        """Whether those who copy from here keep to a rate while they are not in sync (KIP-73)."""
        self.is_throttled = False
        """Whether this replica does, when it copies."""
        log.on_range_change = self._on_range_change
        self.is_leader = False
        if is_alone:
            self.become_leader(leader_epoch)
        else:
            self.take(self._new_follower(), leader_epoch)

    def become_leader(self, leader_epoch: int) -> None:
        """This broker leads the partition from now on: it appends what producers send."""
        leader = Leader(self, self._clock, self._opener)
        if self.is_leader:
            leader.take_over(self.role)  # type: ignore[arg-type]
        self.take(leader, leader_epoch)

    def become_follower(self, leader_epoch: int) -> None:
        """Another broker leads the partition from now on; whoever waits for an acknowledgement is told so."""
        before = self.role
        self.take(self._new_follower(), leader_epoch)
        self._leave(before)

    def _new_follower(self) -> "Follower":
        from ottla.replication.follower import Follower  # late: one broker alone follows nobody

        return Follower(self, self._clock)

    def take(self, role: "Leader | Follower", leader_epoch: int) -> None:
        """Have another role from now on; those who wait in the one before are left to the caller."""
        self.role = role
        self.is_leader = isinstance(role, Leader)
        self.leader_epoch = leader_epoch
        self.verifications = NO_VERIFICATIONS
        self.log.on_progress = role.on_log_progress
        self.log.high_watermark = self.high_watermark if role.is_replicated else LONG_MAX
        self.changed()

    def _leave(self, role: "Leader | Follower") -> None:
        error, message = ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker stopped leading {self.topic_partition}"
        role.fail(error, message)
        if self.held is not None:
            self.held.fail(error, message)
        self.complete_local_end(_WHEREVER)

    @property
    def unacknowledged_count(self) -> int:
        """How many appends wait for the high watermark."""
        return self.role.unacknowledged_count

    def require_leader_epoch(self, current_leader_epoch: int, *, from_followers: bool = False) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours (KIP-320); -1 asks for no check.

        With `from_followers` it need not be the leader, as long as there is one (KIP-392). The epoch is looked at
        first: who knows a newer one than this broker, which may be about to lead, only has to ask again.

        Raises ApiError NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if 0 <= current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"{self.topic_partition} is at epoch {self.leader_epoch}")
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.topic_partition} is only at epoch {self.leader_epoch}"
            )
        if not self.is_leader and not (from_followers and self.leader_id >= 0):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker is not the leader of {self.topic_partition}")

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
        """Append as the role does: `Leader.append`, `Follower.append`."""
        self.role.append(records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free, origin=origin, guard=guard)

    def want_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, adds_partition: bool
    ) -> Verification:
        """`TransactionVerifications.want`: what is to be verified before the producer's batch begins a transaction."""
        if self.verifications is NO_VERIFICATIONS:
            self.verifications = TransactionVerifications()
        return self.verifications.want(producer_id, producer_epoch, sequence, adds_partition=adds_partition)

    def append_marker(self, marker: TransactionMarker, on_ack: OnAck) -> None:
        """End a producer's transaction; `on_ack` is called once, as for an append with acks=all.

        Refused with INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, or as appends are.
        """
        self.role.append_marker(marker, on_ack)

    def hold_appends(self) -> Callable[[], None]:
        """Have what is appended from now on wait until the function that is returned is called, once.

        One who holds them at a time.
        """
        held = self.held = HeldAppends()

        def release() -> None:
            self.held = None
            held.release()

        return release

    def check_marker(self, marker: TransactionMarker) -> ErrorCode:
        """What would become of a marker that is appended now by its epochs: NONE, INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED.
        """
        try:
            self.log.producers.require_marker(
                marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
            )
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    @property
    def local_end_offset(self) -> int:
        """The end of what this replica has as safe as it has to be: on disk, or written where nothing is flushed first.

        What followers have does not matter to it.
        """
        return self.log.flushed_end_offset if self.flush_before_ack else self.log.written_end_offset

    def local_end_reached(self, offset: int) -> asyncio.Future[None]:
        """Done when `local_end_offset` is at least `offset`, or will not be soon: stopped, or the disk failed.

        Whoever waits no longer is to complete or cancel it.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waits_for_local_end[reached] = offset
        reached.add_done_callback(self.waits_for_local_end.pop)
        return reached

    def complete_local_end(self, end_offset: int) -> None:
        """Tell those who wait for this replica to have everything below `end_offset` or less."""
        for reached, offset in tuple(self.waits_for_local_end.items()):
            if offset <= end_offset and not reached.done():
                reached.set_result(None)

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
        return await self._tasks.in_thread(result.read)

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
        return self.log.delete_records_before(offset)

    def epoch_of_offset(self, offset: int) -> int:
        """The leader epoch `offset` was written in, or, at the log end, will be; -1 when that is not known."""
        return self.leader_epoch if offset >= self.log.log_end_offset else self.log.epoch_of_offset(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to `epoch` and the offset it ends at; (-1, -1) when `epoch` is not known here.

        The leader's own epoch begins at its log end even before anything was written in it.
        """
        log = self.log
        own_epoch = self.leader_epoch if self.is_leader else NO_EPOCH
        return epoch_end(log.leader_epochs, own_epoch, log.log_end_offset, epoch)

    @property
    def low_watermark(self) -> int:
        """The lowest log start of the replicas that are alive, of a partition that this broker leads."""
        return self.role.low_watermark

    @property
    def is_short_of_replicas(self) -> bool:
        """Whether an append with acks=all is refused with NOT_ENOUGH_REPLICAS now.

        All replicas are enough, whatever `min.insync.replicas` asks for (KIP-966).
        """
        return self.isr_size < min(self.min_insync_replicas, self.replica_count)

    @property
    def is_behind_election(self) -> bool:
        """Whether what was there when this broker began to lead is not known to be committed yet (KIP-207)."""
        return self.high_watermark < self.role.epoch_start_offset

    def fail(self, message: str) -> None:
        """The log directory is gone: whoever waits for an acknowledgement is told so."""
        self.role.fail(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if self.held is not None:
            self.held.fail(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.complete_local_end(_WHEREVER)

    def stop(self) -> None:
        """This broker no longer leads the partition, or the partition is deleted."""
        self.is_leader = False
        self.leader_id = -1
        self.log.on_progress = self.log.on_range_change = None
        self._leave(self.role)
        self.changed()

    def _on_range_change(self) -> None:
        """The log begins later, or was cut: nothing above its end is committed, whatever a leader before said."""
        end_offset = self.log.log_end_offset
        if self.high_watermark > end_offset:
            self.high_watermark = end_offset
        elif self.high_watermark < self.log.log_start_offset:
            self.high_watermark = self.log.log_start_offset
        if self.role.is_replicated:
            self.log.high_watermark = self.high_watermark
        if self.waits_for_local_end:
            self.complete_local_end(_WHEREVER)
        self.changed()

    def subscribe(self, on_change: OnChange) -> None:
        """Call `on_change` whenever a reader may see something new of this partition (`version`)."""
        self._subscribers = (*self._subscribers, on_change)

    def unsubscribe(self, on_change: OnChange) -> None:
        """Call it no more."""
        self._subscribers = tuple(each for each in self._subscribers if each != on_change)

    def changed(self) -> None:
        """A reader may see something new: say so to everybody who wants to know."""
        unstable = self.log.producers.unstable
        self.last_stable_offset = self.high_watermark
        if unstable.count:
            unstable.committed(self.high_watermark)
            first_offset = unstable.first_offset
            if first_offset is not None:
                self.last_stable_offset = min(max(first_offset, self.log.log_start_offset), self.high_watermark)
        self.version += 1
        for on_change in self._subscribers:
            try:
                on_change(self)
            except Exception:
                logger.exception("a listener of %s failed on a change", self.topic_partition)
