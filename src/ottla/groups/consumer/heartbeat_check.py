"""What a ConsumerGroupHeartbeat must look like (KIP-848), whatever group it is for."""

from collections.abc import Collection
from typing import Final

from ottla.groups import member_epoch as epochs
from ottla.groups.consumer_config import MEMBER_ID_BYTES_MAX, RACK_ID_BYTES_MAX, SUBSCRIPTION_BYTES_MAX
from ottla.groups.group_config import INSTANCE_ID_BYTES_MAX
from ottla.groups.requests import ConsumerHeartbeat
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

NAME_SHOWN_MAX: Final = 100
"""How much of a name that is not known is said in an answer."""


def check_heartbeat(request: ConsumerHeartbeat, assignors: Collection[str]) -> None:
    """Raises ApiError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    complaint = _complaint(request)
    if complaint is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, complaint)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        message = (
            f"ServerAssignor {request.server_assignor[:NAME_SHOWN_MAX]} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _complaint(request: ConsumerHeartbeat) -> str | None:
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    needs_id = request.must_bring_id or request.member_epoch != epochs.JOIN_GROUP
    if needs_id and not request.member_id.strip():
        return "MemberId can't be empty."
    if request.member_epoch < epochs.LEAVE_GROUP_STATIC:
        return "MemberEpoch is invalid."
    if request.member_epoch == epochs.LEAVE_GROUP_STATIC and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch == epochs.JOIN_GROUP:
        complaint = _joining_complaint(request)
        if complaint is not None:
            return complaint
    return _size_complaint(request)


def _joining_complaint(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms < 0:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _size_complaint(request: ConsumerHeartbeat) -> str | None:
    for name, text, bytes_max in (
        ("MemberId", request.member_id, MEMBER_ID_BYTES_MAX),
        ("InstanceId", request.instance_id or "", INSTANCE_ID_BYTES_MAX),
        ("RackId", request.rack_id or "", RACK_ID_BYTES_MAX),
    ):
        if len(text) > bytes_max or len(text.encode()) > bytes_max:
            return f"{name} is longer than {bytes_max} bytes."
    if request.topic_names and sum(len(name) + 2 for name in request.topic_names) > SUBSCRIPTION_BYTES_MAX:
        return f"SubscribedTopicNames take more than {SUBSCRIPTION_BYTES_MAX} bytes."
    return None
