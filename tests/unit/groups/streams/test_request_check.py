from typing import Any

import pytest

from ottla.groups.streams.request_check import MEMBER_ID_BYTES_MAX, require_valid
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)

JOIN: dict[str, Any] = {
    "group_id": "app",
    "member_id": "m",
    "rebalance_timeout_ms": 1_000,
    "topology": Topology(1, (Subtopology("0", ("orders",)),)),
    "active_tasks": (),
    "standby_tasks": (),
    "warmup_tasks": (),
}
HEARTBEAT: dict[str, Any] = {"group_id": "app", "member_id": "m", "member_epoch": 2}
TASKS = (TaskIds("0", (0,)),)


@pytest.mark.parametrize("said", [JOIN, HEARTBEAT, {**HEARTBEAT, "member_epoch": -1}, {**JOIN, "rack_id": "r"}])
def test_what_members_send_is_taken(said: dict[str, Any]):
    require_valid(StreamsGroupHeartbeatRequest(**said))


@pytest.mark.parametrize(
    ("said", "wrong", "message"),
    [
        (JOIN, {"instance_id": "i"}, "Static membership is not yet supported."),
        (JOIN, {"task_offsets": (TaskOffset(),)}, "TaskOffsets are not supported yet."),
        (JOIN, {"task_end_offsets": ()}, "TaskEndOffsets are not supported yet."),
        (HEARTBEAT, {"warmup_tasks": TASKS}, "WarmupTasks are not supported yet."),
        (
            JOIN,
            {"topology": Topology(1, (Subtopology("0", source_topic_regex=("o.*",)),))},
            "Regular expressions for source topics are not supported yet.",
        ),
        (JOIN, {"member_id": " "}, "MemberId can't be empty."),
        (JOIN, {"group_id": ""}, "GroupId can't be empty."),
        (HEARTBEAT, {"rack_id": ""}, "RackId can't be empty."),
        (JOIN, {"member_id": "m" * (MEMBER_ID_BYTES_MAX + 1)}, "MemberId has at most 1024 bytes."),
        (JOIN, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (JOIN, {"active_tasks": TASKS}, "ActiveTasks must be empty when (re-)joining."),
        (JOIN, {"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        (JOIN, {"topology": None}, "Topology must be non-null when (re-)joining."),
        (HEARTBEAT, {"member_epoch": -2}, "InstanceId can't be null."),
        (HEARTBEAT, {"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (HEARTBEAT, {"active_tasks": TASKS}, "If one task-type is non-null, all must be non-null."),
        (HEARTBEAT, {"topology": JOIN["topology"]}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_what_no_member_sends_is_refused_by_what_is_wrong(said: dict[str, Any], wrong: dict[str, Any], message: str):
    with pytest.raises(ApiError) as refused:
        require_valid(StreamsGroupHeartbeatRequest(**{**said, **wrong}))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_the_name_of_a_group_that_cannot_be_kept_is_refused():
    with pytest.raises(ApiError) as refused:
        require_valid(StreamsGroupHeartbeatRequest(**{**JOIN, "group_id": "g" * 2_000}))
    assert refused.value.code is ErrorCode.INVALID_GROUP_ID
