"""StreamsGroupHeartbeat and StreamsGroupDescribe through the gateway: who may, what is made, what others are told."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.internal_topic_creation import InternalTopicCreation
from ottla.broker.streams_groups import StreamsGroupService
from ottla.gateways.kafka.api_15_describe_groups import API as DESCRIBE_GROUPS
from ottla.gateways.kafka.api_16_list_groups import API as LIST_GROUPS
from ottla.gateways.kafka.api_88_streams_group_heartbeat import API as HEARTBEAT
from ottla.gateways.kafka.api_89_streams_group_describe import API as DESCRIBE
from ottla.metadata.controller.feature_update import FeatureUpdate, UpgradeType
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.features import STREAMS_VERSION
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.broker.rules import Rules
from tests.unit.coordination.toy import until
from tests.unit.gateways.group_gateway import GroupGateway

TOPOLOGY = Topology(
    1,
    (
        Subtopology("0", source_topics=("flights",), repartition_sink_topics=("app-by-city",)),
        Subtopology(
            "1", repartition_source_topics=(TopicInfo("app-by-city"),), state_changelog_topics=(TopicInfo("app-s"),)
        ),
    ),
)
GROUP, TOPIC, CLUSTER = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER


def join(member_id: str = "m", topology: Topology = TOPOLOGY, group_id: str = "app") -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        rebalance_timeout_ms=1_000,
        topology=topology,
        process_id="p",
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        client_tags=(),
    )


def again(epoch: int, member_id: str = "m") -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id="app", member_id=member_id, member_epoch=epoch)


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def gateway(tmp_path: Path, rules: Rules) -> AsyncIterator[Any]:
    gateway: Any = GroupGateway(tmp_path, rules)
    await gateway.open()
    creation = InternalTopicCreation(gateway.topics, rules, gateway.timer.clock, gateway.tasks)
    gateway.streams_groups = StreamsGroupService(gateway.coordinator, creation, rules)
    await gateway.elect()
    yield gateway
    await gateway.close()


async def made(gateway: Any, name: str) -> None:
    await until(lambda: gateway.image.topic(name) is not None)


async def test_the_topics_of_its_own_are_made_and_the_member_gets_its_tasks(gateway):
    first = await gateway.ask(HEARTBEAT, join())
    assert (first.error_code, first.member_id, first.member_epoch) == (0, "m", 1)
    assert (first.endpoint_information_epoch, first.partitions_by_user_endpoint) == (0, None), "nobody has an address"
    assert [(each.status_code, each.status_detail) for each in first.status] == [
        (5, "Assignment delayed due to the configured initial rebalance delay."),
        (3, "Internal topics are missing: [app-by-city, app-s]"),
    ]
    await made(gateway, "app-s")
    assert len(gateway.image.topic("app-by-city").partitions) == 2
    gateway.timer.advance(3_000)
    got = await gateway.ask(HEARTBEAT, again(1))
    while not got.active_tasks:
        gateway.timer.advance(1_000)
        got = await gateway.ask(HEARTBEAT, again(got.member_epoch))
    assert got.active_tasks == (TaskIds("0", (0, 1)), TaskIds("1", (0, 1)))
    assert got.heartbeat_interval_ms == 5_000
    listed = await gateway.ask(LIST_GROUPS, ListGroupsRequest(types_filter=("streams",)))
    (group,) = listed.groups
    assert (group.group_id, group.protocol_type, group.group_state, group.group_type) == (
        "app",
        "streams",
        "Stable",
        "streams",
    )
    (described,) = (await gateway.ask(DESCRIBE, StreamsGroupDescribeRequest(group_ids=("app", "app")))).groups
    (member,) = described.members
    assert (described.group_state, member.process_id, member.client_host) == ("Stable", "p", "/10.0.0.1")
    assert [topic.partitions for topic in described.topology.subtopologies[1].state_changelog_topics] == [2]
    (classic,) = (await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("app",)))).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


async def test_without_the_feature_there_are_no_streams_groups(gateway):
    await gateway.controller.update_features([FeatureUpdate(STREAMS_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)])
    assert (await gateway.ask(HEARTBEAT, join())).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = (await gateway.ask(DESCRIBE, StreamsGroupDescribeRequest(group_ids=("app",)))).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_what_a_member_sends_wrong_is_told_with_words(gateway):
    answer = await gateway.ask(HEARTBEAT, again(3))
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Streams group app not found.")
    answer = await gateway.ask(HEARTBEAT, join(group_id=""))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    answer = await gateway.ask(HEARTBEAT, join(group_id="g" * 2_000))
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    (group,) = (await gateway.ask(DESCRIBE, StreamsGroupDescribeRequest(group_ids=("",)))).groups
    assert group.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            "no/name",
            "Topic name is invalid: 'no/name' contains characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    ],
)
async def test_topics_that_no_application_may_use_are_refused(gateway, name, message):
    answer = await gateway.ask(HEARTBEAT, join(topology=Topology(1, (Subtopology("0", source_topics=(name,)),))))
    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


async def test_who_may_not_read_the_group_or_know_of_its_topics(gateway, rules):
    rules.deny(Operation.DESCRIBE, TOPIC, "app-s")
    assert (await gateway.ask(HEARTBEAT, join())).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rules.deny(Operation.READ, GROUP, "app")
    assert (await gateway.ask(HEARTBEAT, join())).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_who_may_not_create_its_topics_is_told_which(gateway, rules):
    rules.deny(Operation.CREATE, CLUSTER, CLUSTER_NAME)
    rules.deny(Operation.CREATE, TOPIC, "app-s")
    answer = await gateway.ask(HEARTBEAT, join())
    assert answer.error_code == 0
    assert answer.status[-1].status_detail == (
        "Internal topics are missing: [app-by-city, app-s]; Unauthorized to CREATE on topics app-s."
    )
    assert gateway.image.topic("app-by-city") is None


async def test_why_a_topic_could_not_be_made_is_told_with_the_next_heartbeat(gateway):
    topology = Topology(1, (Subtopology("0", ("flights",), state_changelog_topics=(TopicInfo("app-s", 0, 9),)),))
    first = await gateway.ask(HEARTBEAT, join(topology=topology))
    await until(lambda: not len(gateway.tasks))
    answer = await gateway.ask(HEARTBEAT, again(first.member_epoch))
    assert "Internal topics are missing: [app-s]; Creation failed: app-s (" in answer.status[-1].status_detail


async def test_who_may_see_a_group(gateway, rules):
    await gateway.topics.create(ANONYMOUS, [NewTopic("trains")])
    await gateway.ask(HEARTBEAT, join())

    async def described() -> Any:
        (group,) = (await gateway.ask(DESCRIBE, StreamsGroupDescribeRequest(group_ids=("app",)))).groups
        return group

    assert (await described()).error_code == 0
    rules.deny(Operation.DESCRIBE, TOPIC, "flights")
    refused = await described()
    assert (refused.error_code, refused.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    rules.deny(Operation.DESCRIBE, GROUP, "app")
    assert (await described()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    (unknown,) = (await gateway.ask(DESCRIBE, StreamsGroupDescribeRequest(group_ids=("nobody",)))).groups
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")
