"""Members of streams groups that mean harm: what they send is refused by its size or its sense, and nothing is kept."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.streams.membership import MEMBER_METADATA_BYTES_MAX
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker_process import BrokerProcess
from tests.hostile.conftest import create_topic
from tests.hostile.raw_peer import RawPeer

GROUP = "hostile-streams"
FORGED = "x\n2026-01-01 00:00:00 INFO ottla: all is well\x1b[2J"
PLAIN = Topology(1, (Subtopology("0", source_topics=("orders",)),))
CHAIN = tuple(
    Subtopology(str(index), (), (), (), (f"r{index + 1}",), (TopicInfo(f"r{index}"),)) for index in range(999, -1, -1)
)


def join(**fields: Any) -> StreamsGroupHeartbeatRequest:
    said: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "m",
        "rebalance_timeout_ms": 60_000,
        "topology": PLAIN,
        "process_id": "p",
        "active_tasks": (),
        "standby_tasks": (),
        "warmup_tasks": (),
        **fields,
    }
    return StreamsGroupHeartbeatRequest(**said)


@pytest.fixture
def member(broker: BrokerProcess, peer: RawPeer) -> RawPeer:
    """A connection to a broker that coordinates groups already."""
    while peer.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), 6).coordinators[0].error_code:
        pass
    while peer.ask(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1), 0).error_code in (
        14,
        15,
        16,
    ):
        pass
    return peer


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (join(topology=Topology(1, (Subtopology("0"),) * 60_000)), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (join(topology=Topology(1, CHAIN)), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (
            join(topology=Topology(1, (Subtopology("0", tuple(f"{index:0200}" for index in range(20_000))),))),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (
            join(topology=Topology(1, (Subtopology("0", copartition_groups=(CopartitionGroup((7,)),) * 9_000),))),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (join(topology=Topology(1, (Subtopology("0", (FORGED,)),))), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (join(member_id="m" * 30_000), ErrorCode.INVALID_REQUEST),
        (join(group_id="g" * 30_000), ErrorCode.INVALID_GROUP_ID),
        (join(process_id="p" * MEMBER_METADATA_BYTES_MAX), ErrorCode.INVALID_REQUEST),
        (join(client_tags=tuple(KeyValue(str(index), "v" * 100) for index in range(9_000))), ErrorCode.INVALID_REQUEST),
        (join(user_endpoint=Endpoint("h" * 30_000, 1)), ErrorCode.INVALID_REQUEST),
    ],
    ids=["many", "endless chain", "long", "indexes", "forged", "member id", "group id", "process", "tags", "endpoint"],
)
def test_what_could_not_be_kept_or_made_sense_of_is_refused(
    member: RawPeer, request_: StreamsGroupHeartbeatRequest, error: ErrorCode
):
    assert member.ask(request_, 0).error_code == error
    assert GROUP not in {each.group_id for each in member.ask(ListGroupsRequest(), 5).groups}
    assert member.is_served()


def test_tasks_that_there_are_not_are_refused_and_the_member_stays(broker: BrokerProcess, member: RawPeer):
    create_topic(broker.port, "orders", 2)
    joined = member.ask(join(), 0)
    assert joined.error_code == 0
    owned = (TaskIds("0", tuple(range(100_000))),)
    heartbeat = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        member_epoch=joined.member_epoch,
        active_tasks=owned,
        standby_tasks=(),
        warmup_tasks=(),
    )
    assert member.ask(heartbeat, 0).error_code == ErrorCode.INVALID_REQUEST
    leave = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1)
    assert member.ask(leave, 0).error_code == 0
