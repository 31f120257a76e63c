"""Who gives partitions their roles: in a cluster `PartitionRoles`, on a broker that is alone this."""

from typing import Protocol

from ottla.metadata.image.image import PartitionImage
from ottla.replication.partition import Partition
from ottla.storage.log import Log


class Roles(Protocol):
    """Belongs to the event loop; one image after the other."""

    async def apply(self, partition: Partition, image: PartitionImage) -> None:
        """Have a partition lead or follow as the metadata says."""
        ...

    async def leave(self, partition: Partition) -> None:
        """The partition is about to be removed; returns when nobody cuts its log."""
        ...

    def stand_down(self, partition: Partition) -> bool:
        """Lead a partition no more that others may lead; whether it was led."""
        ...

    def high_watermark_at_first(self, log: Log) -> int | None:
        """What is committed of a log whose partition has no other replica; None: all of it, and this broker leads."""
        ...

    def committed_end(self, partition: Partition) -> int:
        """The offset that the high watermark is checkpointed as."""
        ...


class LoneRoles:
    """On a broker that is alone with its store: it leads what it has, unless the metadata names another leader."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    async def apply(self, partition: Partition, image: PartitionImage) -> None:
        """Have a partition lead or follow; an image that changes neither leader nor epoch does nothing."""
        partition.replica_count, partition.isr_size = len(image.replicas), len(image.isr)
        leads = image.leader == self._broker_id
        if (partition.is_leader, partition.leader_epoch) == (leads, image.leader_epoch):
            return
        if leads:
            partition.become_leader(image.leader_epoch)
        else:
            partition.become_follower(image.leader_epoch)

    async def leave(self, partition: Partition) -> None:
        """Nobody copies from anybody, so nobody cuts its log."""

    def stand_down(self, partition: Partition) -> bool:
        """Nobody else may lead."""
        return False

    def high_watermark_at_first(self, log: Log) -> int | None:
        """All of it is committed, and this broker leads."""
        return None

    def committed_end(self, partition: Partition) -> int:
        """What this replica counts as its own, where there is no other."""
        log = partition.log
        if partition.replica_count > 1:
            return partition.high_watermark
        return log.flushed_end_offset if partition.flush_before_ack else log.written_end_offset
