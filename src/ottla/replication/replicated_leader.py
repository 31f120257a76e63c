r"""The leader's part of a partition that other brokers have replicas of.

append --> log --> written: followers fetch it -------> they have it as safe as it has to be: their next fetch says so
               \-> on disk here, side by side with theirs                                    |
                                         committed <-- everybody in the ISR has it <---------+
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.model.error_code import ErrorCode
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.leader import Leader

if TYPE_CHECKING:
    from ottla.metadata.image.image import PartitionImage
    from ottla.replication.isr_manager import IsrManager
    from ottla.replication.partition import Partition
    from ottla.storage.log import Log

logger: Final = logging.getLogger(__name__)


class ReplicatedLeader(Leader):
    """A `Leader` that commits what its in-sync replicas have. Belongs to the event loop."""

    __slots__ = ("_manager", "_written_end", "in_sync", "next_proposal_ms")

    is_replicated = True

    def __init__(self, partition: "Partition", image: "PartitionImage", manager: "IsrManager") -> None:
        super().__init__(partition, manager.clock, manager.opener)
        self._manager = manager
        now_ms = manager.clock.monotonic_ms()
        self._written_end = partition.log.written_end_offset
        self.next_proposal_ms = now_ms
        """Before it nothing is proposed: a refusal does not become another one at once."""
        self.in_sync = InSyncReplicas(
            manager.broker_id,
            image.replicas,
            image.isr,
            image.partition_epoch,
            epoch_start_offset=partition.log.log_end_offset,
            live_brokers=manager.live_brokers,
            lag_max_ms=manager.lag_max_ms,
            now_ms=now_ms,
        )

    @property
    def name(self) -> str:
        """For messages."""
        return str(self._partition.topic_partition)

    @property
    def is_over(self) -> bool:
        """Whether the partition has another role by now."""
        return self._partition.role is not self or not self._partition.is_leader

    @property
    def partition(self) -> "Partition":
        """What it leads."""
        return self._partition

    def adopt(self, image: "PartitionImage") -> bool:
        """The controller decided on the replicas or the ISR in this leader epoch; False when that is known."""
        if not self.in_sync.adopt(image.replicas, image.isr, image.partition_epoch, self._clock.monotonic_ms()):
            return False
        self.advance()
        self.maybe_expand_isr()
        return True

    @property
    def epoch_start_offset(self) -> int:
        """Where the log ended when this broker began to lead it; what was committed before is below it (KIP-207)."""
        return self.in_sync.epoch_start_offset

    def is_in_sync(self, broker_id: int) -> bool:
        """Whether a replica is in the ISR."""
        return broker_id in self.in_sync.committed

    @property
    def low_watermark(self) -> int:
        """See `Leader.low_watermark`; -1 while a follower that is alive has not said where its log begins."""
        return self.in_sync.low_watermark(super().low_watermark)

    def follower_fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> ErrorCode:
        """A replica has everything below `offset`, which is within this log and follows a record that both have.

        UNKNOWN_TOPIC_OR_PARTITION, STALE_BROKER_EPOCH when that does not count.
        """
        in_sync = self.in_sync
        error = in_sync.fetched(
            broker_id,
            broker_epoch,
            offset,
            log_start_offset,
            leader_end_offset=self._partition.log.written_end_offset,
            now_ms=self._clock.monotonic_ms(),
        )
        if error is ErrorCode.NONE:
            if broker_id not in in_sync.committed:
                self._maybe_expand_isr(broker_id)
            self.advance()
        return error

    def maybe_expand_isr(self) -> None:
        """Ask for an ISR with a follower that may join by now: one that has nothing to fetch says nothing new."""
        in_sync = self.in_sync
        if self.is_over:
            return
        if in_sync.proposed is None and len(in_sync.committed) < len(in_sync.replicas):
            for broker_id in in_sync.followers:
                if broker_id not in in_sync.committed and in_sync.proposed is None:
                    self._maybe_expand_isr(broker_id)

    def _maybe_expand_isr(self, broker_id: int) -> None:
        """A follower that stays where it is, at the high watermark though that be, would only be in everybody's way."""
        state, now_ms = self.in_sync.followers.get(broker_id), self._clock.monotonic_ms()
        end_offset = self._partition.log.written_end_offset
        is_stuck = state is None or not state.is_caught_up(end_offset, now_ms, self.in_sync.lag_max_ms)
        if is_stuck or now_ms < self.next_proposal_ms:
            return
        isr = self.in_sync.with_joining(broker_id, self._partition.high_watermark)
        if isr is not None:
            self._manager.propose(self, isr, f"broker {broker_id} has caught up")

    def silent(self, now_ms: int, silent_ms: int) -> Iterator[int]:
        """The in-sync replicas that are behind and have not fetched for `silent_ms`."""
        return self.in_sync.silent(self._partition.log.written_end_offset, now_ms, silent_ms)

    def drop(self, cut_off: frozenset[int], now_ms: int, silent_ms: int) -> None:
        """Ask for an ISR without those who are silent and cannot be reached."""
        lost = cut_off.intersection(self.silent(now_ms, silent_ms))
        if not lost:
            return
        self.in_sync.lost(lost)
        isr = self.in_sync.without_lagging(self._partition.log.written_end_offset, now_ms)
        if isr is not None and now_ms >= self.next_proposal_ms:
            names = ", ".join(f"broker {each}" for each in sorted(lost))
            self._manager.propose(self, isr, f"no answer from {names}, which is behind")

    def shrink(self, now_ms: int) -> None:
        """Ask for an ISR without those who do not keep up."""
        in_sync = self.in_sync
        isr = in_sync.without_lagging(self._partition.log.written_end_offset, now_ms)
        if isr is None or now_ms < self.next_proposal_ms:
            return
        behind = ", ".join(
            f"broker {broker_id} has offset {in_sync.followers[broker_id].end_offset}"
            for broker_id in in_sync.committed
            if broker_id not in isr
        )
        end_offset = self._partition.log.written_end_offset
        self._manager.propose(self, isr, f"{behind} of {end_offset} for {in_sync.lag_max_ms} ms and longer")

    def on_log_progress(self, log: "Log") -> None:
        """The log got on: followers may fetch more, and more may be committed."""
        partition = self._partition
        if partition.waits_for_local_end:
            partition.complete_local_end(partition.local_end_offset)
        written_end = log.written_end_offset
        if written_end > self._written_end:
            self.in_sync.grew(self._written_end, self._clock.monotonic_ms())
            self._written_end = written_end
            partition.version += 1
            self._manager.tell_followers(partition)
        self.advance()

    def advance(self) -> None:
        """Commit what the ISR has."""
        partition = self._partition
        before = partition.high_watermark
        end_offset = partition.local_end_offset
        if end_offset <= before:
            return
        high_watermark = self.in_sync.high_watermark(
            before, end_offset, partition.min_insync_replicas, self._clock.monotonic_ms()
        )
        if high_watermark > before:
            partition.high_watermark = partition.log.high_watermark = high_watermark
            self._ack_queue.complete(high_watermark)
            partition.changed()

    def fail(self, error: ErrorCode, message: str) -> None:
        """See `Leader.fail`; followers that wait for records hear of it, too."""
        super().fail(error, message)
        self._manager.tell_followers(self._partition)
