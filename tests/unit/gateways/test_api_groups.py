"""Members: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, in every version."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.gateways.kafka.api_11_join_group import API as JOIN_GROUP
from ottla.gateways.kafka.api_12_heartbeat import API as HEARTBEAT
from ottla.gateways.kafka.api_13_leave_group import API as LEAVE_GROUP
from ottla.gateways.kafka.api_14_sync_group import API as SYNC_GROUP
from ottla.groups.classic_group import ClassicGroup
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.gateways.group_gateway import GroupGateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GroupGateway]:
    gateway = GroupGateway(tmp_path)
    await gateway.open()
    await gateway.elect()
    yield gateway
    await gateway.close()


def join_request(member_id: str = "", **values) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", b"metadata"),),
        **values,
    )


async def become_member(gateway: GroupGateway, version: int = 9) -> str:
    """Join as a client of that version; the member id."""
    member_id = ""
    if version >= 4:
        required = await gateway.ask(JOIN_GROUP, join_request(), version)
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id = required.member_id
    answer = gateway.send(JOIN_GROUP, join_request(member_id), version)
    gateway.timer.advance(1)
    joined = await answer
    assert joined.error_code == ErrorCode.NONE
    return joined.member_id


@pytest.mark.parametrize("version", range(FIND_COORDINATOR.min_version, FIND_COORDINATOR.max_version + 1))
async def test_a_group_is_coordinated_by_the_broker_the_client_reached(gateway: GroupGateway, version: int):
    request = FindCoordinatorRequest(coordinator_keys=("g", "h")) if version >= 4 else FindCoordinatorRequest(key="g")
    response = await gateway.ask(FIND_COORDINATOR, request, version)
    for each in response.coordinators if version >= 4 else (response,):
        assert (each.error_code, each.node_id, each.host, each.port) == (0, 1, "broker.example", 19092)
    if version >= 4:
        assert [each.key for each in response.coordinators] == ["g", "h"]


@pytest.mark.parametrize(
    ("key_type", "error"),
    [(2, ErrorCode.INVALID_REQUEST), (9, ErrorCode.INVALID_REQUEST)],
)
async def test_other_coordinators_are_not_here(gateway: GroupGateway, key_type: int, error: ErrorCode):
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("x",))
    (answer,) = (await gateway.ask(FIND_COORDINATOR, request)).coordinators
    assert (answer.error_code, answer.node_id, answer.port) == (error, -1, -1)
    assert "coordinate" in answer.error_message or "coordinator" in answer.error_message
    old = await gateway.ask(FIND_COORDINATOR, FindCoordinatorRequest(key="x", key_type=key_type), 2)
    assert old.error_code == error


@pytest.mark.parametrize("version", range(JOIN_GROUP.min_version, JOIN_GROUP.max_version + 1))
async def test_a_client_of_any_version_becomes_a_member(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway, version)
    assert member_id.startswith("client-")


@pytest.mark.parametrize("version", range(JOIN_GROUP.min_version, JOIN_GROUP.max_version + 1))
async def test_a_refused_join_is_answered_in_any_version(gateway: GroupGateway, version: int):
    response = await gateway.ask(JOIN_GROUP, join_request("nobody"), version)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.protocol_name == (None if version >= 7 else "")


async def test_the_member_id_of_a_static_member_shows_its_instance(gateway: GroupGateway):
    answer = gateway.send(JOIN_GROUP, join_request(group_instance_id="instance"))
    gateway.timer.advance(1)
    response = await answer
    assert response.member_id.startswith("instance-")
    assert response.members[0].group_instance_id == "instance"


async def test_without_a_rebalance_time_out_the_session_counts(gateway: GroupGateway):
    await become_member(gateway, 0)
    (group,) = next(iter(gateway.coordinator._runtime.active_shards())).groups()
    assert isinstance(group, ClassicGroup)
    assert [member.rebalance_timeout_ms for member in group.members] == [10_000]


async def test_the_place_a_member_came_from_is_written_as_kafka_writes_it(gateway: GroupGateway):
    await become_member(gateway)
    (group,) = next(iter(gateway.coordinator._runtime.active_shards())).groups()
    assert isinstance(group, ClassicGroup)
    assert [(member.client_id, member.client_host) for member in group.members] == [("client", "/10.0.0.1")]


@pytest.mark.parametrize("version", range(SYNC_GROUP.min_version, SYNC_GROUP.max_version + 1))
async def test_the_leader_assigns_in_any_version(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=(SyncGroupRequestAssignment(member_id, b"work"),),
    )
    response = await gateway.ask(SYNC_GROUP, request, version)
    assert (response.error_code, response.assignment) == (0, b"work")
    if version >= 5:
        assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
        for said in ({"protocol_type": None}, {"protocol_name": None}):
            refused = await gateway.ask(SYNC_GROUP, replace(request, **said), version)
            assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(HEARTBEAT.min_version, HEARTBEAT.max_version + 1))
async def test_a_heartbeat_is_answered_in_any_version(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert (await gateway.ask(HEARTBEAT, request, version)).error_code == 0
    stranger = HeartbeatRequest(group_id="g", generation_id=1, member_id="stranger")
    assert (await gateway.ask(HEARTBEAT, stranger, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
async def test_an_old_client_leaves_alone(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway)
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    assert (await gateway.ask(LEAVE_GROUP, request, version)).error_code == 0
    assert (await gateway.ask(LEAVE_GROUP, request, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, LEAVE_GROUP.max_version + 1))
async def test_members_leave_together_each_with_its_own_outcome(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway)
    members = (MemberIdentity(member_id=member_id), MemberIdentity(member_id="stranger", group_instance_id="i"))
    response = await gateway.ask(LEAVE_GROUP, LeaveGroupRequest(group_id="g", members=members), version)
    assert response.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in response.members] == [
        (member_id, None, 0),
        ("stranger", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


async def test_without_the_offsets_topics_partition_this_broker_is_not_the_coordinator(tmp_path: Path):
    gateway = GroupGateway(tmp_path)
    await gateway.open()
    response = await gateway.ask(JOIN_GROUP, join_request())
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    old_leave = await gateway.ask(LEAVE_GROUP, LeaveGroupRequest(group_id="g", member_id="m"), 0)
    assert old_leave.error_code == ErrorCode.NOT_COORDINATOR
    await gateway.close()
