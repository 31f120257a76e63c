"""The records of consumer groups, as Apache Kafka writes them (KIP-848).

3   the group: its epoch, and a hash of what it is subscribed to
4   the partitions of its topics: written by brokers before 4.1, only removed here
5   a member: what it asks for                    16  the topics that match an expression
6   the epoch of the target                        7  what a member is to have
8   how far a member has come, and what it has
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from ottla.groups.consumer.member import CurrentAssignment, Partitions, to_topic_partitions
from ottla.groups.records import KeyedRecord
from ottla.protocol.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NOTHING_SAID: Final = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None
)
"""What a member asks for that has said nothing yet."""


def group(group_id: str, epoch: int | None, metadata_hash: int = 0) -> KeyedRecord:
    """The group is in an epoch; None when it is gone."""
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return KeyedRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def no_partition_metadata(group_id: str) -> KeyedRecord:
    """What brokers before 4.1 knew of the group's topics is not needed."""
    return KeyedRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member(group_id: str, member_id: str, metadata: ConsumerGroupMemberMetadataValue | None) -> KeyedRecord:
    """A member asks for something; None when it is gone."""
    return KeyedRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), metadata)


def target_metadata(group_id: str, epoch: int | None, timestamp_ms: int = 0) -> KeyedRecord:
    """The target is that of an epoch; None when the group is gone."""
    value = None
    if epoch is not None:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return KeyedRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member(group_id: str, member_id: str, partitions: Partitions | None) -> KeyedRecord:
    """What a member is to have; None when it is gone."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    if partitions is None:
        return KeyedRecord(key, None)
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_topic_partitions(partitions))
    return KeyedRecord(key, value)


def current_assignment(group_id: str, member_id: str, current: CurrentAssignment | None) -> KeyedRecord:
    """How far a member has come; None when it is gone."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return KeyedRecord(key, None if current is None else current.to_value())


def regular_expression(
    group_id: str, regex: str, topics: Iterable[str] | None, version: int = 0, timestamp_ms: int = 0
) -> KeyedRecord:
    """The topics that match an expression; None when nobody has it any longer."""
    value = None
    if topics is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(topics)), version=version, timestamp=timestamp_ms
        )
    return KeyedRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def with_names(metadata: ConsumerGroupMemberMetadataValue, names: tuple[str, ...]) -> ConsumerGroupMemberMetadataValue:
    """The same with the names as another member has them."""
    return metadata if metadata.subscribed_topic_names is names else replace(metadata, subscribed_topic_names=names)
