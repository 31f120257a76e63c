"""The records of share groups (KIP-932), made from what a step decides and read back into it."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from ottla.groups.records import KeyedRecord
from ottla.groups.share.assignor import Place
from ottla.protocol.coordinator_records import share_group as formats

STABLE = 1
"""The state of a member in its record: a share group has no partitions to wait for."""


def by_topic(places: Iterable[Place]) -> dict[UUID, tuple[int, ...]]:
    """Partitions by the id of their topic, both in order."""
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(places):
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in found.items()}


def group_record(group_id: str, epoch: int, metadata_hash: int) -> KeyedRecord:
    """The epoch of a group."""
    value = formats.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return KeyedRecord(formats.ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member_id: str, value: formats.ShareGroupMemberMetadataValue) -> KeyedRecord:
    """What a member says of itself."""
    return KeyedRecord(formats.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> KeyedRecord:
    """The epoch of the target assignment."""
    value = formats.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return KeyedRecord(formats.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, places: Iterable[Place]) -> KeyedRecord:
    """The target assignment of a member."""
    value = formats.ShareGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(formats.TopicPartition(*each) for each in by_topic(places).items())
    )
    return KeyedRecord(formats.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(
    group_id: str, member_id: str, epoch: int, previous_epoch: int, places: Iterable[Place]
) -> KeyedRecord:
    """What a member has, and its epoch."""
    value = formats.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous_epoch,
        state=STABLE,
        assigned_partitions=tuple(formats.TopicPartitions(*each) for each in by_topic(places).items()),
    )
    return KeyedRecord(formats.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def state_record(group_id: str, initialized: Mapping[UUID, tuple[str, frozenset[int]]]) -> KeyedRecord:
    """The partitions whose delivery state exists, by the id of their topic with its name."""
    value = formats.ShareGroupStatePartitionMetadataValue(
        initialized_topics=tuple(
            formats.TopicPartitionsInfo(topic_id, name, tuple(sorted(partitions)))
            for topic_id, (name, partitions) in sorted(initialized.items())
        )
    )
    return KeyedRecord(formats.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> Iterator[KeyedRecord]:
    """The records that remove a member."""
    yield KeyedRecord(formats.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield KeyedRecord(formats.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield KeyedRecord(formats.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def group_tombstones(group_id: str) -> Iterator[KeyedRecord]:
    """The records that remove a group without members."""
    yield KeyedRecord(formats.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield KeyedRecord(formats.ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    yield KeyedRecord(formats.ShareGroupMetadataKey(group_id=group_id), None)


def places_of(topics: Iterable[formats.TopicPartition | formats.TopicPartitions]) -> frozenset[Place]:
    """The partitions in a record."""
    return frozenset(Place(topic.topic_id, partition) for topic in topics for partition in topic.partitions)
