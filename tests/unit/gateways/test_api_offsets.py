"""Offsets and groups: OffsetCommit, OffsetFetch, OffsetDelete, DescribeGroups, ListGroups, DeleteGroups."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from ottla.gateways.kafka.api_08_offset_commit import API as OFFSET_COMMIT
from ottla.gateways.kafka.api_09_offset_fetch import API as OFFSET_FETCH
from ottla.gateways.kafka.api_15_describe_groups import API as DESCRIBE_GROUPS
from ottla.gateways.kafka.api_16_list_groups import API as LIST_GROUPS
from ottla.gateways.kafka.api_42_delete_groups import API as DELETE_GROUPS
from ottla.gateways.kafka.api_47_offset_delete import API as OFFSET_DELETE
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.replication.partition import ACKS_ALL
from ottla.storage.append_origin import AppendOrigin
from tests.unit.gateways.group_gateway import GroupGateway
from tests.unit.gateways.test_api_groups import become_member

UNKNOWN_ID = UUID(int=99)
COMMIT_VERSIONS = range(OFFSET_COMMIT.min_version, OFFSET_COMMIT.max_version + 1)
FETCH_VERSIONS = range(OFFSET_FETCH.min_version, OFFSET_FETCH.max_version + 1)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GroupGateway]:
    gateway = GroupGateway(tmp_path)
    await gateway.open()
    await gateway.elect()
    yield gateway
    await gateway.close()


def topic_id(gateway: GroupGateway) -> UUID:
    return gateway.image.topic("flights").topic_id


def commit_request(gateway: GroupGateway, version: int, offsets: dict[int, int], **values) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="note")
        for index, offset in offsets.items()
    )
    if version >= 10:
        topics = (
            OffsetCommitRequestTopic(topic_id=topic_id(gateway), partitions=partitions),
            OffsetCommitRequestTopic(topic_id=UNKNOWN_ID, partitions=partitions[:1]),
        )
    else:
        topics = (
            OffsetCommitRequestTopic(name="flights", partitions=partitions),
            OffsetCommitRequestTopic(name="nowhere", partitions=partitions[:1]),
        )
    return OffsetCommitRequest(group_id="g", topics=topics, **values)


async def commit(gateway: GroupGateway, offsets: dict[int, int], version: int = 9):
    return await gateway.ask(OFFSET_COMMIT, commit_request(gateway, version, offsets), version)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_each_partition_of_a_commit_has_its_own_outcome(gateway: GroupGateway, version: int):
    response = await commit(gateway, {0: 5, 7: 5}, version)
    ours, unknown = response.topics
    assert [(each.partition_index, each.error_code) for each in ours.partitions] == [
        (0, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in unknown.partitions] == [expected]
    assert (ours.topic_id == topic_id(gateway)) if version >= 10 else (ours.name == "flights")


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_a_refused_commit_is_refused_for_every_partition(gateway: GroupGateway, version: int):
    await become_member(gateway)
    request = commit_request(gateway, version, {0: 5, 1: 6}, generation_id_or_member_epoch=1, member_id="stranger")
    ours, _ = (await gateway.ask(OFFSET_COMMIT, request, version)).topics
    assert [each.error_code for each in ours.partitions] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_a_group_that_does_not_exist_looks_like_a_wrong_generation_to_old_clients(
    gateway: GroupGateway, version: int, error: ErrorCode
):
    request = commit_request(gateway, version, {0: 5}, generation_id_or_member_epoch=1, member_id="m")
    ours, _ = (await gateway.ask(OFFSET_COMMIT, request, version)).topics
    assert [each.error_code for each in ours.partitions] == [error]


async def test_a_commit_of_nothing_that_exists_does_not_reach_the_group(gateway: GroupGateway):
    await commit(gateway, {7: 5})
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups == ()


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_old_clients_set_a_retention_of_their_own(gateway: GroupGateway, version: int):
    await gateway.ask(OFFSET_COMMIT, commit_request(gateway, version, {0: 5}, retention_time_ms=60_000), version)
    shard = next(iter(gateway.coordinator._runtime.active_shards()))
    (committed,) = shard._offsets._store.of_group("g").values()
    assert committed.expire_timestamp_ms == committed.commit_timestamp_ms + 60_000


def fetch_request(gateway: GroupGateway, version: int, *, everything: bool = False) -> OffsetFetchRequest:
    if version < 8:
        topics = (OffsetFetchRequestTopic("flights", (0, 1)),)
        return OffsetFetchRequest(group_id="g", topics=None if everything else topics)
    of_group: tuple[OffsetFetchRequestTopics, ...]
    if version >= 10:
        of_group = (
            OffsetFetchRequestTopics(topic_id=topic_id(gateway), partition_indexes=(0, 1)),
            OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=(0,)),
        )
    else:
        of_group = (OffsetFetchRequestTopics(name="flights", partition_indexes=(0, 1)),)
    return OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id="g", topics=None if everything else of_group),
            OffsetFetchRequestGroup(group_id="other", topics=None),
        )
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_offsets_are_fetched_in_any_version(gateway: GroupGateway, version: int):
    await commit(gateway, {1: 42})
    response = await gateway.ask(OFFSET_FETCH, fetch_request(gateway, version), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    assert [(each.partition_index, each.committed_offset, each.metadata) for each in topics[0].partitions] == [
        (0, -1, ""),
        (1, 42, "note"),
    ]
    if version >= 8:
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", 0), ("other", 0)]
        assert response.groups[1].topics == ()
    if version >= 10:
        assert topics[0].topic_id == topic_id(gateway)
        assert topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_all_offsets_of_a_group_are_fetched_when_no_topics_are_named(gateway: GroupGateway, version: int):
    await commit(gateway, {0: 41, 1: 42})
    response = await gateway.ask(OFFSET_FETCH, fetch_request(gateway, version, everything=True), version)
    (topic,) = response.topics if version < 8 else response.groups[0].topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 41), (1, 42)]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_a_broker_that_is_not_the_coordinator_says_so_in_any_version(gateway: GroupGateway, version: int):
    gateway.coordinator.resigned(gateway.partition)
    response = await gateway.ask(OFFSET_FETCH, fetch_request(gateway, version), version)
    if version >= 8:
        asked = fetch_request(gateway, version).groups[0].topics
        told = response.groups[0].topics
        assert [(each.name, each.topic_id) for each in told] == [(each.name, each.topic_id) for each in asked]
        partitions = [each for topic in told for each in topic.partitions]
        assert {each.committed_offset for each in partitions} == {-1}
        assert {each.error_code for each in partitions} == {ErrorCode.UNSTABLE_OFFSET_COMMIT}
        errors = [group.error_code for group in response.groups]
    else:
        (topic,) = response.topics
        assert [each.committed_offset for each in topic.partitions] == [-1, -1]
        errors = [each.error_code for each in topic.partitions]
        errors += [response.error_code] if version >= 2 else []
    assert set(errors) == {ErrorCode.NOT_COORDINATOR}


async def test_an_offset_fetch_of_no_groups_is_answered(gateway: GroupGateway):
    assert (await gateway.ask(OFFSET_FETCH, OffsetFetchRequest())).groups == ()


@pytest.mark.parametrize("version", range(DESCRIBE_GROUPS.min_version, DESCRIBE_GROUPS.max_version + 1))
async def test_groups_are_described_in_any_version(gateway: GroupGateway, version: int):
    member_id = await become_member(gateway)
    response = await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("g", "missing")), version)
    group, missing = response.groups
    assert (group.group_id, group.group_state, group.protocol_type) == ("g", "CompletingRebalance", "consumer")
    assert [(each.member_id, each.client_id, each.client_host) for each in group.members] == [
        (member_id, "client", "/10.0.0.1")
    ]
    assert (missing.group_id, missing.group_state) == ("missing", "Dead")
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    if version >= 6:
        assert missing.error_message == "Group missing not found."


async def test_what_may_be_done_with_a_group_is_told_when_asked(gateway: GroupGateway):
    await commit(gateway, {0: 1})
    asked = DescribeGroupsRequest(groups=("g",), include_authorized_operations=True)
    (group,) = (await gateway.ask(DESCRIBE_GROUPS, asked)).groups
    assert group.authorized_operations == 0b110101001000
    (group,) = (await gateway.ask(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("g",)))).groups
    assert group.authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(LIST_GROUPS.min_version, LIST_GROUPS.max_version + 1))
async def test_groups_are_listed_in_any_version(gateway: GroupGateway, version: int):
    await commit(gateway, {0: 1})
    (group,) = (await gateway.ask(LIST_GROUPS, ListGroupsRequest(), version)).groups
    assert group.group_id == "g"
    if version >= 4:
        assert group.group_state == "Empty"
        assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest(states_filter=("Stable",)), version)).groups == ()
    if version >= 5:
        assert group.group_type == "classic"
        assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest(types_filter=("share",)), version)).groups == ()


async def test_a_list_that_would_be_incomplete_is_refused(tmp_path: Path):
    gateway = GroupGateway(tmp_path)
    await gateway.open()
    gateway.partition.holds_back = True
    waits_for_commit = build_batch([(0, b"\0\x63", b"of no kind that is known", ())])
    gateway.partition.append(waits_for_commit, acks=ACKS_ALL, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR)
    gateway.coordinator.elected(gateway.partition)
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await gateway.close()


@pytest.mark.parametrize("version", range(DELETE_GROUPS.max_version + 1))
async def test_each_group_is_deleted_for_itself(gateway: GroupGateway, version: int):
    await commit(gateway, {0: 1})
    response = await gateway.ask(DELETE_GROUPS, DeleteGroupsRequest(groups_names=("missing", "g")), version)
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        ("g", ErrorCode.NONE),
    ]
    assert (await gateway.ask(LIST_GROUPS, ListGroupsRequest())).groups == ()


async def test_offsets_are_deleted_partition_by_partition(gateway: GroupGateway):
    await commit(gateway, {0: 1, 1: 2})
    partitions = tuple(OffsetDeleteRequestPartition(index) for index in (0, 7))
    request = OffsetDeleteRequest(
        group_id="g",
        topics=(OffsetDeleteRequestTopic("flights", partitions), OffsetDeleteRequestTopic("nowhere", partitions[:1])),
    )
    response = await gateway.ask(OFFSET_DELETE, request)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[each.error_code for each in topic.partitions] for topic in response.topics] == [[0, unknown], [unknown]]
    fetched = await gateway.ask(OFFSET_FETCH, fetch_request(gateway, 9, everything=True), 9)
    assert [each.partition_index for each in fetched.groups[0].topics[0].partitions] == [1]


async def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted(gateway: GroupGateway):
    response = await gateway.ask(OFFSET_DELETE, OffsetDeleteRequest(group_id="missing"))
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())


async def test_a_group_that_is_named_twice_is_deleted_and_answered_once(gateway: GroupGateway):
    await commit(gateway, {0: 1})
    answer = await gateway.ask(DELETE_GROUPS, DeleteGroupsRequest(groups_names=("g", "x", "g")))
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", ErrorCode.NONE),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


async def test_offsets_of_a_group_without_a_name_cannot_be_deleted(gateway: GroupGateway):
    answer = await gateway.ask(OFFSET_DELETE, OffsetDeleteRequest(group_id=""))
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
