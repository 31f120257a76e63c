"""Which partitions this broker leads, for whoever keeps something beside a partition while it is led here.

metadata: this broker leads from epoch 7 ---> role taken     ---> elected(partition)
metadata: it leads from epoch 9          ---> resigned(partition), role taken, elected(partition)
metadata: another one leads, or it goes  ---> resigned(partition), role given up
"""

import logging
from typing import Final, Protocol

from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import Partition

logger: Final = logging.getLogger(__name__)


class LeadershipListener(Protocol):
    """Keeps something of the partitions that this broker leads. What it raises is logged and stops nobody else."""

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition from now on, in the leader epoch that the partition is at."""
        ...

    def resigned(self, partition: Partition) -> None:
        """It does so no more, or begins another leader epoch; called once after each `elected`, before the role
        changes.
        """
        ...


class Leaderships:
    """Belongs to the event loop. Listeners register before the first partition is served."""

    def __init__(self) -> None:
        self._of_topic: dict[str, list[LeadershipListener]] = {}
        self._of_all: list[LeadershipListener] = []
        self._epochs: dict[TopicPartition, int] = {}
        """The leader epoch in which each partition that somebody listens to was taken."""

    def register(self, listener: LeadershipListener, topic: str | None = None) -> None:
        """Tell a listener of the partitions of a topic, or of all partitions."""
        if topic is None:
            self._of_all.append(listener)
        else:
            self._of_topic.setdefault(topic, []).append(listener)

    def is_new(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Whether nobody has heard that this broker leads a partition in a leader epoch."""
        return self._epochs.get(partition) != leader_epoch

    def take(self, partition: Partition, leader_epoch: int) -> None:
        """The role of a leader is taken, as the metadata says it for a leader epoch."""
        listeners = self._listeners(partition)
        if listeners:
            self._epochs[partition.topic_partition] = leader_epoch
        for listener in listeners:
            try:
                listener.elected(partition)
            except Exception:
                logger.exception("what is kept of %s while it is led could not begin", partition.topic_partition)

    def give_up(self, partition: Partition) -> None:
        """The role is about to go; nothing is said of a partition that was not led."""
        if self._epochs.pop(partition.topic_partition, None) is None:
            return
        for listener in self._listeners(partition):
            try:
                listener.resigned(partition)
            except Exception:
                logger.exception("what is kept of %s while it is led could not be closed", partition.topic_partition)

    def _listeners(self, partition: Partition) -> list[LeadershipListener]:
        of_topic = self._of_topic.get(partition.topic_partition.topic)
        return self._of_all if of_topic is None else [*of_topic, *self._of_all]
