"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what other APIs say of consumer groups, in every version."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.broker.access import Operation, ResourceType
from ottla.gateways.kafka.api_08_offset_commit import API as OFFSET_COMMIT
from ottla.gateways.kafka.api_09_offset_fetch import API as OFFSET_FETCH
from ottla.gateways.kafka.api_15_describe_groups import API as DESCRIBE_GROUPS
from ottla.gateways.kafka.api_16_list_groups import API as LIST_GROUPS
from ottla.gateways.kafka.api_68_consumer_group_heartbeat import API as HEARTBEAT
from ottla.gateways.kafka.api_69_consumer_group_describe import API as DESCRIBE
from ottla.metadata.features import GROUP_VERSION
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.gateways.group_gateway import GroupGateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GroupGateway]:
    gateway = GroupGateway(tmp_path)
    await gateway.open()
    await gateway.elect()
    yield gateway
    await gateway.close()


def join(member_id: str = "m", **values: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": "g",
            "member_id": member_id,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("flights",),
            "topic_partitions": (),
            **values,
        }
    )


def topic_id(gateway: GroupGateway):
    return gateway.image.topics_by_name["flights"].topic_id


@pytest.mark.parametrize("version", range(HEARTBEAT.min_version, HEARTBEAT.max_version + 1))
async def test_a_member_gets_the_partitions_of_its_topic(gateway: GroupGateway, version: int):
    answer = await gateway.ask(HEARTBEAT, join(), version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
    assert answer.heartbeat_interval_ms == 5_000
    ((topic, partitions),) = ((each.topic_id, each.partitions) for each in answer.assignment.topic_partitions)
    assert (topic, partitions) == (topic_id(gateway), (0, 1))
    assert (await gateway.ask(HEARTBEAT, ConsumerGroupHeartbeatRequest("g", "m", 2), version)).assignment is None


async def test_a_client_of_version_0_gets_an_id_and_one_of_version_1_brings_its_own(gateway: GroupGateway):
    answer = await gateway.ask(HEARTBEAT, join(""), 0)
    assert len(answer.member_id) == 22
    refused = await gateway.ask(HEARTBEAT, join(""), 1)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "MemberId" in refused.error_message


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "g" * 2_000}, ErrorCode.INVALID_GROUP_ID),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 7}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_what_is_wrong_is_refused_and_leaves_no_group(
    gateway: GroupGateway, values: dict[str, Any], error: ErrorCode
):
    answer = await gateway.ask(HEARTBEAT, join(**values))
    assert answer.error_code == error
    assert answer.error_message or error is ErrorCode.INVALID_GROUP_ID
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups == ()


async def test_a_topic_named_twice_is_one(gateway: GroupGateway):
    await gateway.ask(HEARTBEAT, join(subscribed_topic_names=("flights", "flights", "away")))
    (group,) = (await gateway.ask(DESCRIBE, ConsumerGroupDescribeRequest(("g",)))).groups
    assert group.members[0].subscribed_topic_names == ("away", "flights")


@pytest.mark.parametrize("version", range(DESCRIBE.min_version, DESCRIBE.max_version + 1))
async def test_a_group_is_described(gateway: GroupGateway, version: int):
    await gateway.ask(HEARTBEAT, join(instance_id="i", rack_id="r"))
    request = ConsumerGroupDescribeRequest(("g", "h", "g"), include_authorized_operations=True)
    group, missing = (await gateway.ask(DESCRIBE, request, version)).groups
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert member.subscribed_topic_regex == ""
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id(gateway), "flights", (0, 1))
    assert member.member_type == (1 if version >= 1 else -1)
    assert (missing.error_code, missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "")
    assert missing.error_message == "Group h not found."


async def test_lists_show_the_type_and_filter_by_it(gateway: GroupGateway):
    await gateway.ask(HEARTBEAT, join())
    for request, found in (
        (ListGroupsRequest(), True),
        (ListGroupsRequest(types_filter=("Consumer",)), True),
        (ListGroupsRequest(types_filter=("classic",)), False),
        (ListGroupsRequest(states_filter=("stable",), types_filter=("consumer", "classic")), True),
        (ListGroupsRequest(states_filter=("Empty",)), False),
    ):
        groups = (await gateway.ask(LIST_GROUPS, request)).groups
        shown = [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups]
        assert shown == ([("g", "consumer", "Stable", "consumer")] if found else [])


async def test_it_is_no_group_to_those_who_know_classic_groups_alone(gateway: GroupGateway):
    await gateway.ask(HEARTBEAT, join())
    (group,) = (await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(("g",)))).groups
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group g is not a classic group."
    (group,) = (await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(("g",)), 5)).groups
    assert (group.error_code, group.group_state) == (0, "Dead")


def commit(gateway: GroupGateway, epoch: int, version: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequestTopic(
        name="flights" if version < 10 else "", topic_id=topic_id(gateway), partitions=(partition,)
    )
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=epoch, member_id="m", topics=(topic,))


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [
        (8, 2, ErrorCode.UNSUPPORTED_VERSION),
        (9, 2, ErrorCode.NONE),
        (10, 2, ErrorCode.NONE),
        (10, 1, ErrorCode.STALE_MEMBER_EPOCH),
        (10, 3, ErrorCode.STALE_MEMBER_EPOCH),
        (10, -1, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
async def test_members_commit_in_their_epoch(gateway: GroupGateway, version: int, epoch: int, error: ErrorCode):
    await gateway.ask(HEARTBEAT, join())
    (topic,) = (await gateway.ask(OFFSET_COMMIT, commit(gateway, epoch, version), version)).topics
    assert topic.partitions[0].error_code == error


@pytest.mark.parametrize("version", range(9, OFFSET_FETCH.max_version + 1))
async def test_members_fetch_in_their_epoch(gateway: GroupGateway, version: int):
    await gateway.ask(HEARTBEAT, join())
    await gateway.ask(OFFSET_COMMIT, commit(gateway, 2, 10))
    topic = OffsetFetchRequestTopics(
        name="flights" if version < 10 else "", topic_id=topic_id(gateway), partition_indexes=(0,)
    )
    for member_id, epoch, error in (
        ("m", 2, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),
        ("m", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", member_id, epoch, (topic,)),))
        (group,) = (await gateway.ask(OFFSET_FETCH, request, version)).groups
        assert group.error_code == error
        offsets = [partition.committed_offset for each in group.topics for partition in each.partitions]
        assert offsets == ([5] if error is ErrorCode.NONE else [])


class Allowing:
    """Everything, but some topics."""

    def __init__(self) -> None:
        self.hidden: tuple[str, ...] = ()

    version = 0
    by_host = False

    def allows_on_any(self, *_: object) -> bool:
        return False

    def allows(self, principal: Principal, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return resource_type is not ResourceType.TOPIC or name not in self.hidden


async def test_a_topic_that_may_not_be_seen_cannot_be_subscribed_to_and_matches_nothing(tmp_path: Path):
    authorizer = Allowing()
    gateway = GroupGateway(tmp_path, authorizer)
    await gateway.open()
    await gateway.elect()
    try:
        authorizer.hidden = ("flights",)
        answer = await gateway.ask(HEARTBEAT, join())
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer = await gateway.ask(HEARTBEAT, join(subscribed_topic_names=None, subscribed_topic_regex="f.*"))
        assert (answer.error_code, answer.assignment.topic_partitions) == (0, ())
        authorizer.hidden = ()
        await gateway.ask(HEARTBEAT, join("n"))
        authorizer.hidden = ("flights",)
        (group,) = (await gateway.ask(DESCRIBE, ConsumerGroupDescribeRequest(("g",)))).groups
        assert group.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert group.members == ()
    finally:
        await gateway.close()


async def test_where_the_protocol_is_turned_off_clients_are_told_so(gateway: GroupGateway):
    gateway.coordinator.config = replace(gateway.coordinator.config, protocols=("classic",))
    answer = await gateway.ask(HEARTBEAT, join())
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups == ()


async def test_where_the_cluster_agreed_on_no_consumer_groups_clients_are_told_so(gateway: GroupGateway):
    gateway.coordinator.metadata_changed(replace(gateway.image, feature_levels={GROUP_VERSION: 0}))
    assert (await gateway.ask(HEARTBEAT, join())).error_code == ErrorCode.UNSUPPORTED_VERSION
