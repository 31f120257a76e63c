"""The partitions this broker holds, by name and by topic id."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias
from uuid import UUID

from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.model.unknown_topic import no_such_partition, no_such_topic_id
from ottla.replication.partition import Partition

PartitionKey: TypeAlias = tuple[str | bytes, int]
"""The name of a topic or the 16 bytes of its id, and the index of a partition."""


_NOTHING: Final = MetadataImage("")


class ReplicaManager:
    """Finds partitions; a partition is added when its log exists and removed before its log goes.

    Who asks for one that the metadata has and this broker has not is sent to look for its leader. Belongs to the event
    loop.
    """

    __slots__ = ("_by_name", "_current_image", "_partition_counts", "by_key", "offline")

    def __init__(self, current_image: Callable[[], MetadataImage] = lambda: _NOTHING) -> None:
        """`current_image` says which partitions the cluster has; without it all there are are here."""
        self._current_image = current_image
        self._by_name: dict[tuple[str, int], Partition] = {}
        self.by_key: dict[PartitionKey, Partition] = {}
        """Each partition under both of its keys, to be looked at only."""
        self._partition_counts: dict[UUID, int] = {}
        """How many partitions of each topic are here."""
        self.offline: dict[TopicPartition, str] = {}
        """Why partitions that belong here are not: their data directory cannot be read. Until they are added."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._by_name.values()))

    def add(self, partition: Partition) -> None:
        """Serve a partition from now on."""
        topic, index = partition.topic_partition
        self._by_name[topic, index] = partition
        self.by_key[topic, index] = self.by_key[partition.topic_id.bytes, index] = partition
        self._partition_counts[partition.topic_id] = self._partition_counts.get(partition.topic_id, 0) + 1
        self.offline.pop(partition.topic_partition, None)

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> list[Partition]:
        """Stop serving partitions; whoever waits on them is answered. Unknown ones are passed over."""
        removed = []
        for name in topic_partitions:
            topic, index = name
            self.offline.pop(name, None)
            partition = self._by_name.pop((topic, index), None)
            if partition is None:
                continue
            self.by_key.pop((topic, index), None)
            self.by_key.pop((partition.topic_id.bytes, index), None)
            self._partition_counts[partition.topic_id] -= 1
            if not self._partition_counts[partition.topic_id]:
                del self._partition_counts[partition.topic_id]
            partition.stop()
            removed.append(partition)
        return removed

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, or None."""
        return self._by_name.get((topic, index))

    def is_known(self, topic_partition: TopicPartition) -> bool:
        """Whether the cluster has such a partition, wherever its replicas are."""
        topic, index = topic_partition
        return (topic, index) in self._by_name or self._current_image().partition(topic, index) is not None

    def get(self, topic: str, index: int) -> Partition:
        """The partition; raises ApiError NOT_LEADER_OR_FOLLOWER (it is elsewhere), KAFKA_STORAGE_ERROR (it is offline),
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise self._missing(topic, index, self.is_known(TopicPartition(topic, index)))
        return partition

    def get_by_id(self, topic_id: UUID, index: int) -> Partition:
        """The partition of a topic id; raises ApiError UNKNOWN_TOPIC_ID, or as `get` does."""
        partition = self.by_key.get((topic_id.bytes, index))
        if partition is not None:
            return partition
        topic = self._current_image().topic_by_id(topic_id)
        if topic is not None:
            raise self._missing(topic.name, index, 0 <= index < len(topic.partitions))
        if topic_id in self._partition_counts:
            raise no_such_partition(str(topic_id), index)
        raise no_such_topic_id(topic_id)

    def _missing(self, topic: str, index: int, is_elsewhere: bool) -> ApiError:
        reason = self.offline.get(TopicPartition(topic, index))
        if reason is not None:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline: {reason}")
        if is_elsewhere:
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker holds no replica of {topic}-{index}")
        return no_such_partition(topic, index)
