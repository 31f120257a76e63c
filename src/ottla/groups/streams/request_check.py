"""Whether a heartbeat is one that a member may send; the words are Apache Kafka's."""

from collections.abc import Sequence
from typing import Final

from ottla.groups.group_config import GROUP_ID_BYTES_MAX
from ottla.groups.member_epoch import JOIN_GROUP, LEAVE_GROUP_STATIC
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

MEMBER_ID_BYTES_MAX: Final = 1024
"""A member makes its own id (a UUID); it goes into three records."""


def require_valid(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises ApiError INVALID_REQUEST, or INVALID_GROUP_ID for a name that cannot be kept."""
    _require_supported(request)
    for value, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if len(request.group_id.encode()) > GROUP_ID_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, f"A group id has at most {GROUP_ID_BYTES_MAX} bytes.")
    if len(request.member_id.encode()) > MEMBER_ID_BYTES_MAX:
        raise _invalid(f"MemberId has at most {MEMBER_ID_BYTES_MAX} bytes.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN_GROUP:
        _require_valid_join(request, tasks)
    elif request.member_epoch == LEAVE_GROUP_STATIC:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_GROUP_STATIC:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(each is not None for each in tasks) and any(each is None for each in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_GROUP and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _require_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises ApiError for what Apache Kafka 4.3 does not do either."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _require_valid_join(request: StreamsGroupHeartbeatRequest, tasks: Sequence[tuple[TaskIds, ...] | None]) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for each, name in zip(tasks, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
        if each is None or each:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
