"""OffsetCommit: who may store offsets for a group, and what is stored."""

from ottla.groups import sessions
from ottla.groups.answers import CommitAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.committed_offset import CommittedOffset
from ottla.groups.deleted_topics import TopicIdOf
from ottla.groups.group_state import GroupState
from ottla.groups.records import OffsetRecord
from ottla.groups.requests import CommitOffsets, OffsetToCommit
from ottla.groups.step import Step
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

METADATA_BYTES_MAX = 32_767
"""The record stores the length of the metadata in an int16, whatever `offset.metadata.max.bytes` allows."""


def commit_offsets(
    step: Step, group: ClassicGroup | None, request: CommitOffsets, topic_id_of: TopicIdOf
) -> CommitAnswer:
    """Store the offsets, each for itself; a group that does not exist is made, with no members."""
    error = _check_missing(request) if group is None else check_commit(group, request)
    if error is not ErrorCode.NONE:
        return CommitAnswer(error)
    if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        sessions.extend(step, group, group.members[request.member_id])
    refused = {}
    for offset in request.offsets:
        partition = TopicPartition(offset.topic, offset.partition)
        if offset.topic_id != topic_id_of(offset.topic):
            # Deleted since the request was read: what is stored now would be the next topic's of that name.
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif _metadata_is_too_large(offset.metadata, step.config.offset_metadata_max_bytes):
            refused[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            step.outcome.write(OffsetRecord(request.group_id, partition, _committed(step, request, offset)))
    return CommitAnswer(refused=refused)


def check_commit(group: ClassicGroup, request: CommitOffsets) -> ErrorCode:
    """Whether this client may commit now: a member of this generation, or anybody while there are no members."""
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if request.generation_id < 0 and not request.member_id and request.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the generation but not its assignment: let it hear of that first.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_missing(request: CommitOffsets) -> ErrorCode:
    if request.generation_id < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if request.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION


def _metadata_is_too_large(metadata: str, characters_max: int) -> bool:
    return len(metadata) > characters_max or len(metadata.encode()) > METADATA_BYTES_MAX


def _committed(step: Step, request: CommitOffsets, offset: OffsetToCommit) -> CommittedOffset:
    return CommittedOffset(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp_ms=step.now_ms,
        expire_timestamp_ms=None if request.retention_ms is None else step.now_ms + request.retention_ms,
        topic_id=offset.topic_id,
    )
