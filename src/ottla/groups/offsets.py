"""Committed offsets: who may commit, and how offsets go again.

They go by request, with their group, or because nobody used them; with their topic: `OffsetSweep`.

Retention (KIP-211): the offsets of a group with members are kept as long as it is subscribed to their topic. Those of
an empty group go when it has been empty for `offsets.retention.minutes`, those of a simple consumer that long after
they were committed. A client of an old version may have given an offset a retention of its own.
"""

from ottla.coordination.outcome import TransactionalRecord
from ottla.groups import joining
from ottla.groups.answers import CommitAnswer, DeleteOffsetsAnswer
from ottla.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.groups.deleted_topics import TopicIdOf
from ottla.groups.group import Group
from ottla.groups.group_state import GroupState
from ottla.groups.offset_store import OffsetStore
from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.records import CommittedOffset, OffsetRecord
from ottla.groups.requests import CommitOffsets, Committer, DeleteOffsets
from ottla.groups.step import Step
from ottla.model.delivery_group import is_delivery_group
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

METADATA_BYTES_MAX = 32_767
"""The record stores the length of the metadata in an int16, whatever `offset.metadata.max.bytes` allows."""


def commit_offsets(step: Step, group: Group | None, request: CommitOffsets, topic_id_of: TopicIdOf) -> CommitAnswer:
    """Store the offsets, each for itself; a group that does not exist is made, with no members."""
    committer = request.committer
    error = _check_unknown_group(committer) if group is None else group.check_commit(request)
    if error is ErrorCode.STALE_MEMBER_EPOCH and committer.is_transactional:
        # A producer is told of an epoch as of a generation.
        return CommitAnswer(ErrorCode.ILLEGAL_GENERATION)
    if error is not ErrorCode.NONE:
        return CommitAnswer(error)
    if (
        isinstance(group, ClassicGroup)
        and not committer.is_transactional
        and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
    ):
        joining.extend_session(step, group, group.members[committer.member_id])
    expire_timestamp_ms = None if committer.retention_ms is None else step.now_ms + committer.retention_ms
    refused = {}
    for topic in request.topics:
        is_there = topic_id_of(topic.topic) == topic.topic_id
        for offset in topic.offsets:
            partition = TopicPartition(topic.topic, offset.partition)
            if not is_there:
                # Deleted since the request was read: what is stored now would be the next topic's of that name.
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif (
                len(offset.metadata) > step.config.offset_metadata_max_bytes
                or len(offset.metadata.encode()) > METADATA_BYTES_MAX
            ):
                refused[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    offset=offset.offset,
                    leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    commit_timestamp_ms=step.now_ms,
                    expire_timestamp_ms=expire_timestamp_ms,
                    topic_id=topic.topic_id,
                )
                record = OffsetRecord(committer.group_id, partition, committed)
                producer = request.producer
                step.outcome.write(record if producer is None else TransactionalRecord(record, producer, request.guard))
    return CommitAnswer(refused=refused)


def _check_unknown_group(committer: Committer) -> ErrorCode:
    """Whether this client may commit for a group that does not exist: who assigns partitions himself may."""
    if committer.generation_id < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if committer.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION


def delete_offsets(
    step: Step, group: Group, offsets: OffsetStore, pending: PendingOffsets, request: DeleteOffsets
) -> DeleteOffsetsAnswer:
    """Remove offsets of topics the group does not read now."""
    if isinstance(group, ClassicGroup) and group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        # What such a group reads is not known, so it may be reading anything.
        return DeleteOffsetsAnswer(ErrorCode.NON_EMPTY_GROUP)
    outcome: dict[TopicPartition, ErrorCode] = {}
    for partition in request.partitions:
        if group.is_subscribed_to(partition.topic):
            outcome[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        outcome[partition] = ErrorCode.NONE
        if offsets.get(group.group_id, partition) is not None or pending.has(group.group_id, partition):
            step.outcome.write(OffsetRecord(group.group_id, partition, None))
    return DeleteOffsetsAnswer(partitions=outcome)


def delete_group(step: Step, group: Group, offsets: OffsetStore, pending: PendingOffsets) -> None:
    """Remove an empty group with all its offsets, also those of transactions that are going on."""
    for partition in dict.fromkeys((*offsets.of_group(group.group_id), *pending.of_group(group.group_id))):
        step.outcome.write(OffsetRecord(group.group_id, partition, None))
    for record in group.tombstones():
        step.outcome.write(record)


def expire_offsets(step: Step, group: Group, offsets: OffsetStore, pending: PendingOffsets) -> bool:
    """Remove what is past its retention. True when no offset is left, or there was none.

    Where a transaction that is going on may commit an offset, the one that is there is in use.
    """
    of_group = offsets.of_group(group.group_id)
    expired = [
        partition
        for partition, committed in of_group.items()
        if not pending.has(group.group_id, partition) and _is_expired(step, group, partition, committed)
    ]
    for partition in expired:
        step.outcome.write(OffsetRecord(group.group_id, partition, None))
    return len(expired) == len(of_group) and group.group_id not in pending


def _is_expired(step: Step, group: Group, partition: TopicPartition, committed: CommittedOffset) -> bool:
    unused_since_ms = group.unused_since_ms(partition.topic, committed)
    if unused_since_ms is None or is_delivery_group(group.group_id):
        return False
    if committed.expire_timestamp_ms is not None:
        return step.now_ms >= committed.expire_timestamp_ms
    return step.now_ms - unused_since_ms >= step.config.offsets_retention_ms
