"""The records of a consumer group, applied to it."""

from ottla.groups.consumer.consumer_group import INITIAL_EPOCH, ConsumerGroup
from ottla.groups.consumer.member import CurrentAssignment, from_topic_partitions
from ottla.groups.records import KeyedRecord
from ottla.protocol.coordinator_records import consumer_group as formats


def replay_in(group: ConsumerGroup, record: KeyedRecord) -> None:
    """Apply a record to its group; the tombstone of the group itself is not for the group."""
    key, value = record.key, record.value
    if isinstance(key, formats.ConsumerGroupCurrentMemberAssignmentKey):
        assert value is None or isinstance(value, formats.ConsumerGroupCurrentMemberAssignmentValue)
        current = None if value is None else CurrentAssignment.from_value(value)
        group.replay_current_assignment(key.member_id, current)
    elif isinstance(key, formats.ConsumerGroupTargetAssignmentMemberKey):
        assert value is None or isinstance(value, formats.ConsumerGroupTargetAssignmentMemberValue)
        if value is None:
            group.target.pop(key.member_id, None)
        else:
            group.target[key.member_id] = from_topic_partitions(value.topic_partitions)
    elif isinstance(key, formats.ConsumerGroupMemberMetadataKey):
        assert value is None or isinstance(value, formats.ConsumerGroupMemberMetadataValue)
        group.replay_member(key.member_id, value)
    elif isinstance(value, formats.ConsumerGroupMetadataValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(key, formats.ConsumerGroupTargetAssignmentMetadataKey):
        assert value is None or isinstance(value, formats.ConsumerGroupTargetAssignmentMetadataValue)
        group.target_epoch = INITIAL_EPOCH if value is None else value.assignment_epoch
        group.assigned_at_ms = 0 if value is None else value.assignment_timestamp
    elif isinstance(key, formats.ConsumerGroupRegularExpressionKey):
        assert value is None or isinstance(value, formats.ConsumerGroupRegularExpressionValue)
        group.replay_regular_expression(key.regular_expression, value)
    elif isinstance(key, formats.ConsumerGroupPartitionMetadataKey):
        group.has_partition_metadata = value is not None
