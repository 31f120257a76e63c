"""Gives partitions the roles that the metadata has for them, in a cluster.

                     leads, has other replicas        leads alone        another broker leads        nobody leads
    role             ReplicatedLeader                 Leader             Follower                    Follower
    fetches          -                                -                  from that broker            -

A partition takes no other role while its log is being cut: what the leader before said comes first, or a follower would
lead with records that are about to go.
"""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.replication.isr_manager import IsrManager
from ottla.replication.leader import Leader
from ottla.replication.replicated_leader import ReplicatedLeader

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.storage.log import Log

logger: Final = logging.getLogger(__name__)


class Fetchers(Protocol):
    """Has followers copy what their leaders have: `ReplicaFetchers`."""

    def follow(self, partition: "Partition", leader_id: int) -> None:
        """Fetch from a leader from now on, in the leader epoch that the partition is at."""
        ...

    def leave(self, partition: "Partition") -> Awaitable[None] | None:
        """Fetch no more; what is returned is done when the log is not being cut any more, None if it is not."""
        ...


class PartitionRoles:
    """Belongs to the event loop; one image after the other."""

    def __init__(self, isr_manager: IsrManager, fetchers: Fetchers) -> None:
        self._broker_id = isr_manager.broker_id
        self._isr_manager = isr_manager
        self._fetchers = fetchers

    def on_image(self, image: MetadataImage, _delta: object = None) -> None:
        """Brokers have come or gone."""
        self._isr_manager.brokers_changed(
            {broker.broker_id: broker.broker_epoch for broker in image.brokers.values() if broker.is_active}
        )

    async def apply(self, partition: "Partition", image: PartitionImage) -> None:
        """Have a partition lead or follow. An image that is older than what it knows, or the same, does nothing.

        Who waits for what the partition does no more is answered NOT_LEADER_OR_FOLLOWER.
        """
        is_first = partition.partition_epoch < 0
        if image.leader_epoch < partition.leader_epoch or image.partition_epoch <= partition.partition_epoch:
            return
        is_new_epoch = is_first or image.leader_epoch > partition.leader_epoch
        if is_new_epoch or partition.leader_id != image.leader:
            await self.leave(partition)
            self._say(partition, image)
        partition.partition_epoch, partition.leader_id = image.partition_epoch, image.leader
        partition.replica_count, partition.isr_size = len(image.replicas), len(image.isr)
        partition.is_in_sync = self._broker_id in image.isr
        if image.leader == self._broker_id:
            self._lead(partition, image, is_new_epoch=is_new_epoch)
        elif is_new_epoch or partition.is_leader:
            partition.become_follower(image.leader_epoch)
            if image.leader != NO_LEADER:
                self._fetchers.follow(partition, image.leader)

    def stand_down(self, partition: "Partition") -> bool:
        """Lead a replicated partition no more: others have been elected, and the image that says so has not come.

        Whoever waits is answered NOT_LEADER_OR_FOLLOWER, and looks for the leader elsewhere. The next image counts,
        also the one that is known, if this broker turns out to lead all the same.
        """
        if not (partition.is_leader and partition.role.is_replicated):
            return False
        partition.become_follower(partition.leader_epoch)
        partition.leader_id = NO_LEADER
        partition.partition_epoch -= 1
        return True

    def high_watermark_at_first(self, log: "Log") -> int | None:
        """All that is there is committed; who leads is said with the role."""
        return log.log_end_offset

    def committed_end(self, partition: "Partition") -> int:
        """The high watermark that leader and follower keep."""
        return partition.high_watermark

    async def leave(self, partition: "Partition") -> None:
        """Fetch no more for a partition, and return when nobody cuts its log; it may be removed then."""
        being_cut = self._fetchers.leave(partition)
        if being_cut is not None:
            await being_cut

    def _lead(self, partition: "Partition", image: PartitionImage, *, is_new_epoch: bool) -> None:
        role = partition.role
        if not is_new_epoch and isinstance(role, ReplicatedLeader) and partition.is_leader:
            role.adopt(image)
            # An answer of the controller may have come before the image that it is newer than.
            partition.isr_size = len(role.in_sync.committed)
        elif len(image.replicas) > 1:
            before = role if isinstance(role, Leader) and partition.is_leader else None
            leader = self._isr_manager.lead(partition, image, before)
            partition.take(leader, image.leader_epoch)
            leader.advance()
            if before is not None:
                self._isr_manager.tell_followers(partition)  # they are to name the new epoch
        elif is_new_epoch or not partition.is_leader:
            partition.become_leader(image.leader_epoch)
            partition.role.on_log_progress(partition.log)

    def _say(self, partition: "Partition", image: PartitionImage) -> None:
        if len(image.replicas) > 1 or image.leader != self._broker_id:
            leader = "nobody leads" if image.leader == NO_LEADER else f"broker {image.leader} leads"
            logger.debug(
                "%s: %s in leader epoch %d, ISR %s, log up to %d, committed up to %d",
                partition.topic_partition,
                leader if image.leader != self._broker_id else "this broker leads",
                image.leader_epoch,
                ",".join(map(str, image.isr)),
                partition.log.log_end_offset,
                partition.high_watermark,
            )
