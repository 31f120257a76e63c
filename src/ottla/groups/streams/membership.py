"""Members of a streams group: who a heartbeat comes from, what it says of itself, and how a member goes."""

import logging
from typing import Final

from ottla.groups.member_epoch import JOIN_GROUP
from ottla.groups.step import RebalanceTimer, SessionTimer, Step
from ottla.groups.streams import streams_records as records
from ottla.groups.streams.exchange import StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.streams_config import MEMBERS_MAX, StreamsConfig
from ottla.groups.streams.streams_group import StreamsGroup
from ottla.groups.streams.tasks import Task, Tasks
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records.streams_group import Endpoint, KeyValue, StreamsGroupMemberMetadataValue
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

logger = logging.getLogger(__name__)

MEMBER_METADATA_BYTES_MAX: Final = 16 * 1024
"""What one member may say of itself: its process, rack, tags and endpoint. It is a record, and kept in memory."""


def member_of(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: Tasks | None, config: StreamsConfig
) -> StreamsMember:
    """The member as it is now, or a new one.

    Raises ApiError UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED or FENCED_MEMBER_EPOCH.
    """
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != JOIN_GROUP:
            raise _unknown(group, request.member_id)
        members_max = min(config.max_size, MEMBERS_MAX)
        if len(group.members) >= members_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {members_max} members.",
            )
        logger.info("streams group %s: member %s joins", group.group_id, request.member_id)
        return StreamsMember(request.member_id)
    if request.member_epoch in (JOIN_GROUP, member.epoch):
        return member
    # A member that comes with its epoch before did not get the answer that raised it; what it has tells.
    is_repeated = (
        request.member_epoch == member.previous_epoch
        and request.member_epoch < member.epoch
        and owned is not None
        and owned.is_within(member.assigned.tasks)
    )
    if not is_repeated:
        word = "greater" if request.member_epoch > member.epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {word} member epoch ({request.member_epoch}) than the one known by the "
            f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    return member


def metadata_of(member: StreamsMember, said: StreamsHeartbeat) -> StreamsGroupMemberMetadataValue:
    """What a member says of itself; what it does not say is as before. The same object when nothing changed.

    Raises ApiError INVALID_REQUEST when it is too much.
    """
    request, before = said.request, member.metadata
    endpoint, tags = request.user_endpoint, request.client_tags
    metadata = StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        user_endpoint=before.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=(
            before.client_tags
            if tags is None
            else tuple(KeyValue(key, value) for key, value in sorted({each.key: each.value for each in tags}.items()))
        ),
    )
    if metadata == before:
        return before
    size = len(metadata.encode(0))
    if size > MEMBER_METADATA_BYTES_MAX:
        raise refusal(f"What the member says of itself takes {size} bytes, at most {MEMBER_METADATA_BYTES_MAX}.")
    return metadata


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks a member says it has; None when it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _tasks(ids: tuple[TaskIds, ...]) -> frozenset[Task]:
    return frozenset(Task(each.subtopology_id, partition) for each in ids for partition in each.partitions)


def leave(step: Step, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeatAnswer:
    """A member goes, maybe because it failed in a way that the whole application is to stop for.

    Raises ApiError UNKNOWN_MEMBER_ID.
    """
    if request.member_id not in group.members:
        raise _unknown(group, request.member_id)
    if request.shutdown_application and group.shutdown_requested_by is None:
        group.shutdown_requested_by = request.member_id
    remove_member(step, group, request.member_id, "leaves")
    response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return StreamsHeartbeatAnswer(response=response)


def remove_member(step: Step, group: StreamsGroup, member_id: str, why: str) -> None:
    """Take a member out; the others get its tasks with the next assignment."""
    logger.info("streams group %s: member %s %s", group.group_id, member_id, why)
    for record in records.member_tombstones(group.group_id, member_id):
        step.outcome.write(record)
    step.outcome.write(
        records.group_record(
            group.group_id,
            group.epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        )
    )
    step.outcome.cancel_timer(SessionTimer(group.group_id, member_id))
    step.outcome.cancel_timer(RebalanceTimer(group.group_id, member_id))


def refusal(message: str) -> ApiError:
    """The refusal of what no member sends."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _unknown(group: StreamsGroup, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
