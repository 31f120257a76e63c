"""The partitions this broker holds, by name and by topic id."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import Partition

PartitionKey: TypeAlias = tuple[str | bytes, int]
"""The name of a topic or the 16 bytes of its id, and the index of a partition."""


class ReplicaManager:
    """Finds partitions; a partition is added when its log exists and removed before its log goes.

    Belongs to the event loop.
    """

    __slots__ = ("_by_name", "_topic_names", "by_key")

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, int], Partition] = {}
        self.by_key: dict[PartitionKey, Partition] = {}
        """Each partition under both of its keys, to be looked at only."""
        self._topic_names: dict[UUID, str] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._by_name.values()))

    def add(self, partition: Partition) -> None:
        """Serve a partition from now on."""
        topic, index = partition.topic_partition
        self._by_name[topic, index] = partition
        self.by_key[topic, index] = self.by_key[partition.topic_id.bytes, index] = partition
        self._topic_names[partition.topic_id] = topic

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> list[Partition]:
        """Stop serving partitions; whoever waits on them is answered. Unknown ones are passed over."""
        removed = []
        for topic, index in topic_partitions:
            partition = self._by_name.pop((topic, index), None)
            if partition is None:
                continue
            self.by_key.pop((topic, index), None)
            self.by_key.pop((partition.topic_id.bytes, index), None)
            self._topic_names.pop(partition.topic_id, None)
            partition.stop()
            removed.append(partition)
        return removed

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, or None."""
        return self._by_name.get((topic, index))

    def get(self, topic: str, index: int) -> Partition:
        """The partition; raises ApiError UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no partition {topic}-{index}")
        return partition

    def get_by_id(self, topic_id: UUID, index: int) -> Partition:
        """The partition of a topic id; raises ApiError UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self.by_key.get((topic_id.bytes, index))
        if partition is not None:
            return partition
        if topic_id in self._topic_names:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._topic_names[topic_id]} has no partition {index}"
            )
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic by its id, or None."""
        return self._topic_names.get(topic_id)
