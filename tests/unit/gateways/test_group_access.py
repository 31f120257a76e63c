"""Who may not have to do with a group, or with a topic it reads, is told so, and nothing happens."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_08_offset_commit import API as OFFSET_COMMIT
from ottla.gateways.kafka.api_09_offset_fetch import API as OFFSET_FETCH
from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.gateways.kafka.api_11_join_group import API as JOIN_GROUP
from ottla.gateways.kafka.api_12_heartbeat import API as HEARTBEAT
from ottla.gateways.kafka.api_13_leave_group import API as LEAVE_GROUP
from ottla.gateways.kafka.api_14_sync_group import API as SYNC_GROUP
from ottla.gateways.kafka.api_15_describe_groups import API as DESCRIBE_GROUPS
from ottla.gateways.kafka.api_16_list_groups import API as LIST_GROUPS
from ottla.gateways.kafka.api_42_delete_groups import API as DELETE_GROUPS
from ottla.gateways.kafka.api_47_offset_delete import API as OFFSET_DELETE
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.unit.broker.rules import Rules
from tests.unit.gateways.group_gateway import GroupGateway
from tests.unit.gateways.test_api_groups import join_request

GROUP_REFUSED, TOPIC_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, DELETE, DESCRIBE = Operation.READ, Operation.DELETE, Operation.DESCRIBE


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def gateway(tmp_path: Path, rules: Rules) -> AsyncIterator[GroupGateway]:
    """Has the topics `flights` and `trains`, and offset 5 in partition 0 of each, committed by the group `g`."""
    gateway = GroupGateway(tmp_path, rules)
    await gateway.open()
    await gateway.elect()
    await gateway.topics.create(ANONYMOUS, [NewTopic("trains")])
    assert await commit(gateway) == [0, 0]
    yield gateway
    await gateway.close()


def commit_request(offset: int = 5) -> OffsetCommitRequest:
    partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
    topics = tuple(OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("flights", "trains"))
    return OffsetCommitRequest(group_id="g", topics=topics)


async def commit(gateway: GroupGateway, offset: int = 5) -> list[int]:
    answer = await gateway.ask(OFFSET_COMMIT, commit_request(offset), 9)
    return [topic.partitions[0].error_code for topic in answer.topics]


async def fetch(gateway: GroupGateway, version: int, *names: str) -> list[tuple[int, int]]:
    """Error and offset of the first partition of each topic, all there are when none is named."""
    topics = tuple(
        OffsetFetchRequestTopics(name=name, partition_indexes=(0,))
        if version < 10
        else OffsetFetchRequestTopics(topic_id=gateway.image.topics_by_name[name].topic_id, partition_indexes=(0,))
        for name in names
    )
    group = OffsetFetchRequestGroup(group_id="g", topics=topics or None)
    answer = await gateway.ask(OFFSET_FETCH, OffsetFetchRequest(groups=(group,)), version)
    assert answer.groups[0].error_code == ErrorCode.NONE
    return sorted(
        (each.error_code, each.committed_offset) for topic in answer.groups[0].topics for each in topic.partitions
    )


@pytest.mark.parametrize(
    ("operation", "api", "request_", "version"),
    [
        (DESCRIBE, FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 3),
        (READ, JOIN_GROUP, join_request(), 9),
        (READ, SYNC_GROUP, SyncGroupRequest(group_id="g", member_id="m", protocol_type="t", protocol_name="p"), 5),
        (READ, HEARTBEAT, HeartbeatRequest(group_id="g", member_id="m"), 4),
        (READ, LEAVE_GROUP, LeaveGroupRequest(group_id="g", member_id="m"), 2),
        (READ, LEAVE_GROUP, LeaveGroupRequest(group_id="g"), 5),
        (DESCRIBE, OFFSET_FETCH, OffsetFetchRequest(group_id="g", topics=None), 7),
        (DELETE, OFFSET_DELETE, OffsetDeleteRequest(group_id="g"), 0),
    ],
)
async def test_a_group_is_not_for_everybody(
    gateway: GroupGateway, rules: Rules, operation: Operation, api: Api, request_: Any, version: int
):
    assert (await gateway.ask(api, request_, version)).error_code != GROUP_REFUSED
    rules.deny(operation, ResourceType.GROUP, "g")
    assert (await gateway.ask(api, request_, version)).error_code == GROUP_REFUSED


async def test_of_many_groups_each_is_asked_for(gateway: GroupGateway, rules: Rules):
    for operation in (DESCRIBE, DELETE):
        rules.deny(operation, ResourceType.GROUP, "g")
    described = await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("g", "h")), 5)
    assert [each.error_code for each in described.groups] == [GROUP_REFUSED, ErrorCode.NONE]
    deleted = await gateway.ask(DELETE_GROUPS, DeleteGroupsRequest(groups_names=("g", "h")))
    assert [each.error_code for each in deleted.results] == [GROUP_REFUSED, ErrorCode.GROUP_ID_NOT_FOUND]
    fetched = await gateway.ask(OFFSET_FETCH, OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),)))
    assert [each.error_code for each in fetched.groups] == [GROUP_REFUSED]


async def test_who_may_see_the_cluster_sees_all_groups_others_those_they_may_see(gateway: GroupGateway, rules: Rules):
    rules.deny(DESCRIBE, ResourceType.GROUP, "g")
    assert [each.group_id for each in (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups] == ["g"]
    rules.deny(DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups == ()


async def test_the_operations_shown_are_those_that_are_allowed(gateway: GroupGateway, rules: Rules):
    rules.deny(DELETE, ResourceType.GROUP, "g")
    request = DescribeGroupsRequest(groups=("g",), include_authorized_operations=True)
    (group,) = (await gateway.ask(DESCRIBE_GROUPS, request)).groups
    operations = {operation for operation in Operation if group.authorized_operations & (1 << operation)}
    assert operations == {READ, DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}


async def test_a_commit_is_refused_for_the_group_or_for_the_topic_alone(gateway: GroupGateway, rules: Rules):
    rules.deny(READ, ResourceType.TOPIC, "trains")
    assert await commit(gateway, 6) == [0, TOPIC_REFUSED]
    assert await fetch(gateway, 9, "flights", "trains") == [(0, 5), (0, 6)]
    rules.deny(READ, ResourceType.GROUP, "g")
    assert await commit(gateway, 7) == [GROUP_REFUSED, GROUP_REFUSED]


@pytest.mark.parametrize("version", [9, 10])
async def test_offsets_in_a_topic_that_one_may_not_see_are_not_told(gateway: GroupGateway, rules: Rules, version: int):
    rules.deny(DESCRIBE, ResourceType.TOPIC, "trains")
    assert await fetch(gateway, version, "flights", "trains") == [(0, 5), (TOPIC_REFUSED, -1)]
    assert await fetch(gateway, version) == [(0, 5)]


async def test_offsets_in_a_topic_that_one_may_not_read_are_not_deleted(gateway: GroupGateway, rules: Rules):
    rules.deny(READ, ResourceType.TOPIC, "trains")
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("flights", "trains"))
    answer = await gateway.ask(OFFSET_DELETE, OffsetDeleteRequest(group_id="g", topics=topics))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, TOPIC_REFUSED]
    assert await fetch(gateway, 9, "flights", "trains") == [(0, -1), (0, 5)]
