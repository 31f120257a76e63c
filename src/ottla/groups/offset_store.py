"""The committed offsets of the groups of one shard."""

from collections.abc import Iterator, Mapping

from ottla.groups.committed_offset import CommittedOffset
from ottla.model.topic_partition import TopicPartition

_NOTHING: dict[TopicPartition, CommittedOffset] = {}


class OffsetStore:
    """Offsets by group and partition. Changed by the replay of records only."""

    __slots__ = ("_by_group", "_count")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many offsets there are, over all groups."""
        return self._count

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The offset of a group in a partition, or None."""
        return self._by_group.get(group_id, _NOTHING).get(partition)

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All offsets of a group."""
        return self._by_group.get(group_id, _NOTHING)

    def items(self) -> Iterator[tuple[str, Mapping[TopicPartition, CommittedOffset]]]:
        """All groups that have offsets, with their offsets."""
        return iter(self._by_group.items())

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Store an offset in place of the one before it."""
        offsets = self._by_group.setdefault(group_id, {})
        self._count += partition not in offsets
        offsets[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Forget an offset, if there is one."""
        offsets = self._by_group.get(group_id)
        if offsets is None or offsets.pop(partition, None) is None:
            return
        self._count -= 1
        if not offsets:
            del self._by_group[group_id]
