"""How committed offsets go: by request, with their group, or because nobody used them. `OffsetSweep`: with their topic.

Retention (KIP-211): the offsets of a group with members are kept as long as it is subscribed to their topic. Those of
an empty group go when it has been empty for `offsets.retention.minutes`, those of a simple consumer that long after
they were committed. A client of an old version may have given an offset a retention of its own.
"""

from ottla.groups.answers import DeleteOffsetsAnswer
from ottla.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.groups.committed_offset import CommittedOffset
from ottla.groups.group_state import GroupState
from ottla.groups.offset_store import OffsetStore
from ottla.groups.records import GroupRecord, OffsetRecord
from ottla.groups.requests import DeleteOffsets
from ottla.groups.step import Step
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition


def delete_offsets(
    step: Step, group: ClassicGroup, offsets: OffsetStore, request: DeleteOffsets
) -> DeleteOffsetsAnswer:
    """Remove offsets of topics the group does not read now."""
    if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        # What such a group reads is not known, so it may be reading anything.
        return DeleteOffsetsAnswer(ErrorCode.NON_EMPTY_GROUP)
    outcome: dict[TopicPartition, ErrorCode] = {}
    for partition in request.partitions:
        if group.is_subscribed_to(partition.topic):
            outcome[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        outcome[partition] = ErrorCode.NONE
        if offsets.get(group.group_id, partition) is not None:
            step.outcome.write(OffsetRecord(group.group_id, partition, None))
    return DeleteOffsetsAnswer(partitions=outcome)


def delete_group(step: Step, group: ClassicGroup, offsets: OffsetStore) -> None:
    """Remove an empty group with all its offsets."""
    for partition in offsets.of_group(group.group_id):
        step.outcome.write(OffsetRecord(group.group_id, partition, None))
    step.outcome.write(GroupRecord(group.group_id, None))


def expire_offsets(step: Step, group: ClassicGroup, offsets: OffsetStore) -> bool:
    """Remove what is past its retention. True when no offset is left, or there was none."""
    of_group = offsets.of_group(group.group_id)
    expired = [partition for partition, committed in of_group.items() if _is_expired(step, group, partition, committed)]
    for partition in expired:
        step.outcome.write(OffsetRecord(group.group_id, partition, None))
    return len(expired) == len(of_group)


def _is_expired(step: Step, group: ClassicGroup, partition: TopicPartition, committed: CommittedOffset) -> bool:
    unused_since_ms = _unused_since_ms(group, partition, committed)
    if unused_since_ms is None:
        return False
    if committed.expire_timestamp_ms is not None:
        return step.now_ms >= committed.expire_timestamp_ms
    return step.now_ms - unused_since_ms >= step.config.offsets_retention_ms


def _unused_since_ms(group: ClassicGroup, partition: TopicPartition, committed: CommittedOffset) -> int | None:
    """When the retention of an offset began; None while the group may be using it."""
    if group.protocol_type is None:
        return committed.commit_timestamp_ms
    if group.is_subscribed_to(partition.topic):
        return None
    if group.state is GroupState.EMPTY:
        return group.state_since_ms if group.state_since_ms >= 0 else committed.commit_timestamp_ms
    knows_its_topics = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.topics is not None
    if knows_its_topics and group.state is GroupState.STABLE:
        return committed.commit_timestamp_ms
    return None
