"""The committed offsets of the groups of one shard.

    group -> topic -> partition index -> offset
    topic -> groups that have offsets in it

The second index makes what a deleted topic leaves behind as cheap to find as there is of it.
"""

from collections.abc import Mapping

from ottla.groups.records import CommittedOffset
from ottla.model.topic_partition import TopicPartition

_NO_TOPICS: dict[str, dict[int, CommittedOffset]] = {}
_NO_OFFSETS: dict[int, CommittedOffset] = {}


class OffsetStore:
    """Offsets by group, topic and partition. Changed by the replay of records only."""

    __slots__ = ("_by_group", "_count", "_groups_of_topic")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._groups_of_topic: dict[str, dict[str, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many offsets there are, over all groups."""
        return self._count

    def __contains__(self, group_id: str) -> bool:
        """Whether a group has offsets."""
        return group_id in self._by_group

    def count(self, group_id: str) -> int:
        """How many offsets a group has."""
        return sum(map(len, self._by_group.get(group_id, _NO_TOPICS).values()))

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The offset of a group in a partition, or None."""
        topic, index = partition
        return self._by_group.get(group_id, _NO_TOPICS).get(topic, _NO_OFFSETS).get(index)

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets of a group, in a dictionary of the caller's own."""
        return {
            TopicPartition(topic, index): committed
            for topic, of_topic in self._by_group.get(group_id, _NO_TOPICS).items()
            for index, committed in of_topic.items()
        }

    def of_topic(self, group_id: str, topic: str) -> Mapping[int, CommittedOffset]:
        """The offsets of a group in one topic, by partition index."""
        return self._by_group.get(group_id, _NO_TOPICS).get(topic, _NO_OFFSETS)

    def topics(self) -> tuple[str, ...]:
        """The topics in which some group has offsets."""
        return tuple(self._groups_of_topic)

    def groups_of_topic(self, topic: str) -> tuple[str, ...]:
        """The groups that have offsets in a topic."""
        return tuple(self._groups_of_topic.get(topic, ()))

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Store an offset in place of the one before it."""
        topic, index = partition
        of_group = self._by_group.setdefault(group_id, {})
        of_topic = of_group.get(topic)
        if of_topic is None:
            of_topic = of_group[topic] = {}
            self._groups_of_topic.setdefault(topic, {})[group_id] = None
        self._count += index not in of_topic
        of_topic[index] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Forget an offset, if there is one."""
        topic, index = partition
        of_group = self._by_group.get(group_id, _NO_TOPICS)
        of_topic = of_group.get(topic)
        if of_topic is None or of_topic.pop(index, None) is None:
            return
        self._count -= 1
        if of_topic:
            return
        del of_group[topic]
        if not of_group:
            del self._by_group[group_id]
        groups = self._groups_of_topic[topic]
        del groups[group_id]
        if not groups:
            del self._groups_of_topic[topic]
