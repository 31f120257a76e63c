"""Topics and groups as an operator manages them: what the broker answers becomes values, or errors that say what."""

import pytest

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.admin.configs import ConfigResource, ConfigSource
from ottla.client.admin.group_admin import GroupAdmin
from ottla.client.consuming.group_protocol import encode_assignment
from ottla.client.errors import BrokerError, BrokerUnreachableError, GroupNotFoundError, TopicNotFoundError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.streams_group_describe import Assignment as StreamsAssignment
from ottla.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ottla.protocol.messages.streams_group_describe import Member as StreamsMember
from ottla.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from ottla.protocol.messages.streams_group_describe import Subtopology as StreamsSubtopology
from ottla.protocol.messages.streams_group_describe import TaskIds as StreamsTaskIds
from tests.unit.client.scripted_broker import ScriptedBroker, in_turn


@pytest.fixture
def broker():
    with ScriptedBroker({"t": 2}) as scripted:
        yield scripted


@pytest.fixture
async def cluster(broker):
    connected = Cluster(ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2), AsyncioIo())
    await connected.connect()
    yield connected
    connected.close()


async def test_a_topic_is_created_as_asked(broker, cluster):
    broker.handlers[CreateTopicsRequest] = lambda request, version: CreateTopicsResponse(
        topics=(CreatableTopicResult(name="new", num_partitions=3, replication_factor=1),)
    )
    created = await Admin(cluster).create_topic(NewTopic("new", 3, configs={"retention.ms": "5"}))
    [request] = broker.asked(CreateTopicsRequest)
    assert (created.name, created.partitions) == ("new", 3)
    assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (3, -1)
    assert [(each.name, each.value) for each in request.topics[0].configs] == [("retention.ms", "5")]


async def test_a_topic_that_was_refused_says_the_brokers_reason(broker, cluster):
    broker.handlers[CreateTopicsRequest] = lambda request, version: CreateTopicsResponse(
        topics=(CreatableTopicResult(name="t", error_code=36, error_message="it is there"),)
    )
    with pytest.raises(BrokerError, match="topic 't' was not created: it is there") as refused:
        await Admin(cluster).create_topic(NewTopic("t"))
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_creating_waits_for_a_controller(broker, cluster):
    def answer(code: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=(CreatableTopicResult(name="new", error_code=code),))

    broker.handlers[CreateTopicsRequest] = in_turn(answer(ErrorCode.NOT_CONTROLLER), answer(0))
    await Admin(cluster).create_topic(NewTopic("new"))
    assert len(broker.asked(CreateTopicsRequest)) == 2


async def test_creating_is_not_repeated_when_it_is_not_known_whether_it_was_done(broker, cluster):
    broker.handlers[CreateTopicsRequest] = lambda request, version: CreateTopicsResponse(
        topics=(CreatableTopicResult(name="t", error_code=7, error_message="the metadata store does not answer"),)
    )
    with pytest.raises(BrokerError, match="topic 't' may not have been created: the metadata store does") as told:
        await Admin(cluster).create_topic(NewTopic("t"))
    assert told.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert len(broker.asked(CreateTopicsRequest)) == 1


async def test_a_topic_is_deleted_by_name_and_a_missing_one_is_not_found(broker, cluster):
    def answer(code: int) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=code),))

    broker.handlers[DeleteTopicsRequest] = in_turn(answer(0), answer(3))
    await Admin(cluster).delete_topic("t")
    with pytest.raises(TopicNotFoundError):
        await Admin(cluster).delete_topic("t")
    assert broker.asked(DeleteTopicsRequest)[0].topic_names == ("t",)


async def test_settings_come_with_their_source(broker, cluster):
    configs = (
        DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1),
        DescribeConfigsResourceResult(name="later", value=None, config_source=99, is_sensitive=True),
    )
    broker.handlers[DescribeConfigsRequest] = lambda request, version: DescribeConfigsResponse(
        results=(DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs),)
    )
    first, second = await Admin(cluster).describe_configs(ConfigResource.topic("t"))
    assert (first.value, first.source) == ("5", ConfigSource.TOPIC)
    assert (second.value, second.source, second.sensitive) == (None, ConfigSource.UNKNOWN, True)


async def test_settings_can_be_asked_for_by_name_with_what_is_said_of_them(broker, cluster):
    configs = (
        DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1, documentation="So long."),
    )
    broker.handlers[DescribeConfigsRequest] = lambda request, version: DescribeConfigsResponse(
        results=(DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs),)
    )
    [entry] = await Admin(cluster).describe_configs(
        ConfigResource.topic("t"), ["retention.ms"], with_documentation=True
    )
    assert entry.documentation == "So long."
    [request] = broker.asked(DescribeConfigsRequest)
    assert (request.resources[0].configuration_keys, request.include_documentation) == (("retention.ms",), True)


async def test_settings_are_set_and_taken_away_one_by_one(broker, cluster):
    broker.handlers[IncrementalAlterConfigsRequest] = lambda request, version: IncrementalAlterConfigsResponse(
        responses=(AlterConfigsResourceResponse(resource_type=2, resource_name="t"),)
    )
    await Admin(cluster).alter_configs(ConfigResource.topic("t"), {"a": "1", "b": None})
    [request] = broker.asked(IncrementalAlterConfigsRequest)
    assert [(each.name, each.config_operation, each.value) for each in request.resources[0].configs] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]


async def test_topics_are_described_and_listed(broker, cluster):
    broker.topics["a"] = 1
    assert [topic.name for topic in await Admin(cluster).list_topics()] == ["a", "t"]
    [described] = await Admin(cluster).describe_topics(["t"])
    assert [partition.leader for partition in described.partitions] == [1, 1]
    with pytest.raises(TopicNotFoundError, match="'none'"):
        await Admin(cluster).describe_topics(["t", "none"])


def group_handlers(broker: ScriptedBroker, group: DescribedGroup, committed: dict[TopicPartition, int]) -> None:
    """A coordinator that knows one group, and partitions that end at 100."""
    topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for place, offset in committed.items():
        topics.setdefault(place.topic, []).append(
            OffsetFetchResponsePartitions(partition_index=place.partition, committed_offset=offset, metadata="note")
        )
    offsets = OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=tuple(OffsetFetchResponseTopics(name=name, partitions=tuple(each)) for name, each in topics.items()),
    )

    def ends(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=100)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    broker.handlers |= {
        FindCoordinatorRequest: lambda request, version: FindCoordinatorResponse(
            coordinators=(Coordinator(key=group.group_id, node_id=1, host="h", port=1),)
        ),
        DescribeGroupsRequest: lambda request, version: DescribeGroupsResponse(groups=(group,)),
        ConsumerGroupDescribeRequest: lambda request, version: ConsumerGroupDescribeResponse(
            groups=(DescribedConsumerGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND),)
        ),
        StreamsGroupDescribeRequest: lambda request, version: StreamsGroupDescribeResponse(
            groups=(DescribedStreamsGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND),)
        ),
        OffsetFetchRequest: lambda request, version: OffsetFetchResponse(groups=(offsets,)),
        ListOffsetsRequest: ends,
    }


def member(assignment: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id="m", client_id="c", client_host="/10.0.0.1", member_metadata=b"", member_assignment=assignment
    )


async def test_a_group_is_shown_with_its_lag_and_its_readers(broker, cluster):
    reads = encode_assignment([TopicPartition("t", 0), TopicPartition("t", 1)])
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=(member(reads),)
    )
    group_handlers(broker, group, {TopicPartition("t", 0): 60, TopicPartition("gone", 0): 5})
    described = await GroupAdmin(cluster).describe_group("g")
    shown = [
        (str(each.topic_partition), each.committed, each.log_end_offset, each.lag, each.member and each.member.host)
        for each in described.partitions
    ]
    assert shown == [("t-0", 60, 100, 40, "10.0.0.1"), ("t-1", None, 100, None, "10.0.0.1")]
    assert (described.state, described.assignor, described.total_lag) == ("Stable", "range", 40)


def consumer_group(*members: Member) -> ConsumerGroupDescribeResponse:
    group = DescribedConsumerGroup(
        group_id="g", group_state="Stable", group_epoch=7, assignor_name="uniform", members=members
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


CLASSIC = Member(member_id="old", client_id="c", client_host="/10.0.0.1", member_epoch=7, member_type=0)
MODERN = Member(
    member_id="new",
    instance_id="i",
    client_id="c",
    client_host="/10.0.0.2",
    member_epoch=6,
    assignment=Assignment((TopicPartitions(topic_name="t", partitions=(1, 0)),)),
    member_type=1,
)
NO_CLASSIC_GROUP = DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead")


async def test_a_group_of_the_new_protocol_is_shown_too(broker, cluster):
    group_handlers(broker, NO_CLASSIC_GROUP, {TopicPartition("t", 0): 60})
    broker.handlers[ConsumerGroupDescribeRequest] = lambda request, version: consumer_group(CLASSIC, MODERN)
    described = await GroupAdmin(cluster).describe_group("g")
    assert (described.group_type, described.state, described.assignor) == ("consumer", "Stable", "uniform")
    shown = [(each.member_id, each.protocol, each.epoch, each.assignment) for each in described.members]
    both = (TopicPartition("t", 0), TopicPartition("t", 1))
    assert shown == [("old", "classic", 7, ()), ("new", "consumer", 6, both)]
    assert [each.member and each.member.host for each in described.partitions] == ["10.0.0.2", "10.0.0.2"]


async def test_a_streams_group_is_shown_with_the_partitions_of_its_tasks(broker, cluster):
    group_handlers(broker, NO_CLASSIC_GROUP, {TopicPartition("t", 0): 60})
    topology = Topology(
        1, (StreamsSubtopology("0", source_topics=("t",)), StreamsSubtopology("1", source_topics=("u",)))
    )
    tasks = StreamsAssignment(active_tasks=(StreamsTaskIds("0", (0, 1)),), standby_tasks=(StreamsTaskIds("1", (0,)),))
    threads = (StreamsMember("m", 4, client_host="/10.0.0.3", assignment=tasks),)
    group = DescribedStreamsGroup(group_id="g", group_state="Stable", topology=topology, members=threads)
    broker.handlers[StreamsGroupDescribeRequest] = lambda request, version: StreamsGroupDescribeResponse(
        groups=(group,)
    )
    described = await GroupAdmin(cluster).describe_group("g")
    assert (described.group_type, described.protocol_type, described.state) == ("streams", "streams", "Stable")
    (shown,) = described.members
    assert (shown.protocol, shown.epoch, shown.host) == ("streams", 4, "10.0.0.3")
    assert shown.assignment == (TopicPartition("t", 0), TopicPartition("t", 1))


async def test_a_running_group_is_moved_by_sending_its_members_away_first(broker, cluster):
    group_handlers(broker, NO_CLASSIC_GROUP, {})
    broker.handlers[ConsumerGroupDescribeRequest] = in_turn(
        consumer_group(CLASSIC, MODERN), consumer_group(MODERN), consumer_group()
    )
    broker.handlers[LeaveGroupRequest] = lambda request, version: LeaveGroupResponse(
        members=tuple(MemberResponse(each.member_id, error_code=25) for each in request.members)
    )
    broker.handlers[ConsumerGroupHeartbeatRequest] = lambda request, version: ConsumerGroupHeartbeatResponse()

    def committed(code: int) -> OffsetCommitResponse:
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=(partition,)),))

    broker.handlers[OffsetCommitRequest] = in_turn(committed(ErrorCode.UNKNOWN_MEMBER_ID), committed(0))
    await GroupAdmin(cluster).set_offsets("g", {TopicPartition("t", 0): 5})
    [left] = broker.asked(LeaveGroupRequest)
    assert [each.member_id for each in left.members] == ["old"]
    away = [
        (each.member_id, each.instance_id, each.member_epoch) for each in broker.asked(ConsumerGroupHeartbeatRequest)
    ]
    assert away == [("new", "i", -1), ("new", "i", -1)], "it came back once before the offsets were written"
    assert [each.generation_id_or_member_epoch for each in broker.asked(OffsetCommitRequest)] == [-1, -1]


async def test_what_members_put_into_their_assignment_does_no_harm(broker, cluster):
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", members=(member(b"\xff\xff\xff\xff"),)
    )
    group_handlers(broker, group, {})
    described = await GroupAdmin(cluster).describe_group("g")
    assert described.members[0].assignment == ()


async def test_a_group_without_members_and_offsets_does_not_exist(broker, cluster):
    group = DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead")
    group_handlers(broker, group, {})
    broker.handlers[ListGroupsRequest] = lambda request, version: ListGroupsResponse()
    with pytest.raises(GroupNotFoundError, match="consumer group 'g' does not exist"):
        await GroupAdmin(cluster).describe_group("g")
    assert broker.asked(OffsetCommitRequest) == []


async def test_the_state_of_a_group_is_dead_when_nobody_knows_it(broker, cluster):
    group_handlers(broker, DescribedGroup(group_id="g", group_state="Empty"), {TopicPartition("t", 1): 7})
    assert await GroupAdmin(cluster).state("g") == "Empty"
    assert await GroupAdmin(cluster).committed("g") == {TopicPartition("t", 1): 7}
    unknown = DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="")
    group_handlers(broker, unknown, {})
    assert await GroupAdmin(cluster).state("g") == "Dead"


async def test_a_group_is_deleted_by_its_coordinator_wherever_that_is_now(broker, cluster):
    def answer(code: int) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=(DeletableGroupResult(group_id="g", error_code=code),))

    group_handlers(broker, DescribedGroup(group_id="g"), {})
    broker.handlers[DeleteGroupsRequest] = in_turn(
        answer(ErrorCode.NOT_COORDINATOR), answer(0), answer(ErrorCode.NON_EMPTY_GROUP), answer(69)
    )
    await GroupAdmin(cluster).delete_group("g")
    assert len(broker.asked(FindCoordinatorRequest)) == 2
    with pytest.raises(BrokerError, match="group 'g' was not deleted: NON_EMPTY_GROUP"):
        await GroupAdmin(cluster).delete_group("g")
    with pytest.raises(GroupNotFoundError):
        await GroupAdmin(cluster).delete_group("g")


async def test_offsets_are_deleted_and_those_that_were_not_say_why(broker, cluster):
    group_handlers(broker, DescribedGroup(group_id="g"), {})
    codes = {"read": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    def deleted(request: OffsetDeleteRequest, version: int) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(
            topics=tuple(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeleteResponsePartition(each.partition_index, codes.get(topic.name, 0))
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    loading = OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    missing = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    broker.handlers[OffsetDeleteRequest] = in_turn(loading, deleted, missing)
    places = [TopicPartition("t", 0), TopicPartition("read", 0), TopicPartition("t", 1)]
    outcomes = await GroupAdmin(cluster).delete_offsets("g", places)
    assert (outcomes[places[0]], outcomes[places[2]]) == (None, None)
    assert str(outcomes[places[1]]).startswith(
        "the offset of read-0 of group 'g' was not deleted: GROUP_SUBSCRIBED_TO_TOPIC: the group is actively subscribed"
    )
    with pytest.raises(GroupNotFoundError):
        await GroupAdmin(cluster).delete_offsets("g", places)


def cut(request: DeleteRecordsRequest, codes: dict[int, int]) -> DeleteRecordsResponse:
    """Every partition begins at 40 now, but those with an error code."""
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    DeleteRecordsPartitionResult(each.partition_index, 40, codes.get(each.partition_index, 0))
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


async def test_records_are_deleted_once_and_a_leader_that_moved_is_asked_again(broker, cluster):
    broker.handlers[DeleteRecordsRequest] = in_turn(
        lambda request, version: cut(request, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}),
        lambda request, version: cut(request, {}),
    )
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert await Admin(cluster).delete_records({places[0]: 40, places[1]: -1}) == {places[0]: 40, places[1]: 40}
    assert [
        [(each.partition_index, each.offset) for each in request.topics[0].partitions]
        for request in broker.asked(DeleteRecordsRequest)
    ] == [[(0, 40), (1, -1)], [(1, -1)]]


async def test_a_partition_that_was_not_cut_says_why_and_the_others_are(broker, cluster):
    def answer(request: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse:
        of_both = cut(request, {0: ErrorCode.OFFSET_OUT_OF_RANGE})
        return of_both if len(broker.asked(DeleteRecordsRequest)) == 1 else DeleteRecordsResponse()

    broker.handlers[DeleteRecordsRequest] = answer
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    outcomes = await Admin(cluster).delete_records(dict.fromkeys(places, 99))
    assert str(outcomes[places[0]]).startswith("the records of t-0 were not deleted: OFFSET_OUT_OF_RANGE: the offset")
    assert outcomes[places[1]] == 40
    [left_out] = (await Admin(cluster).delete_records({places[0]: 1})).values()
    assert "the broker left t-0 out of its answer" in str(left_out)
    with pytest.raises(TopicNotFoundError, match="partition 7 of topic 't'"):
        await Admin(cluster).delete_records({TopicPartition("t", 7): 1})


async def test_a_broker_is_asked_for_its_own_settings_and_any_for_those_of_all(broker, cluster):
    broker.handlers[DescribeConfigsRequest] = lambda request, version: DescribeConfigsResponse(
        results=(
            DescribeConfigsResult(
                resource_type=4, resource_name=request.resources[0].resource_name,
                configs=(DescribeConfigsResourceResult(name="num.partitions", value="3", config_source=3),),
            ),
        )
    )  # fmt: skip
    for resource in (ConfigResource.broker(1), ConfigResource.all_brokers()):
        [entry] = await Admin(cluster).describe_configs(resource)
        assert (entry.value, entry.source) == ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    asked = [request.resources[0] for request in broker.asked(DescribeConfigsRequest)]
    assert [(each.resource_type, each.resource_name) for each in asked] == [(4, "1"), (4, "")]
    with pytest.raises(BrokerUnreachableError, match="broker 2 is not in the cluster"):
        await Admin(cluster).describe_configs(ConfigResource.broker(2))


async def test_settings_that_are_refused_say_whose_they_are_and_why(broker, cluster):
    def refused(code: int) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=(AlterConfigsResourceResponse(code, "not so", resource_type=4, resource_name="1"),)
        )

    broker.handlers[IncrementalAlterConfigsRequest] = in_turn(
        refused(ErrorCode.INVALID_CONFIG), refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    )
    with pytest.raises(BrokerError, match="the settings of broker 1 were not changed: not so"):
        await Admin(cluster).alter_configs(ConfigResource.broker(1), {"a": "b"})
    with pytest.raises(TopicNotFoundError):
        await Admin(cluster).alter_configs(ConfigResource.topic("none"), {"a": "b"})
