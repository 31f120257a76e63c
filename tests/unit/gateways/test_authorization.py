"""What the administration of topics, settings and the cluster asks before it acts, and what it says when it may not."""

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.record_deletion import RecordDeletion
from ottla.gateways.kafka import (
    api_03_metadata,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_32_describe_configs,
    api_33_alter_configs,
    api_34_alter_replica_log_dirs,
    api_35_describe_log_dirs,
    api_37_create_partitions,
    api_43_elect_leaders,
    api_44_incremental_alter_configs,
    api_46_list_partition_reassignments,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_74_list_config_resources,
    api_75_describe_topic_partitions,
)
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages import delete_records as deletion
from ottla.protocol.messages import describe_producers as producers
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
NOT_THE_TOPIC, NOT_THE_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Rules:
    """Allows what was said, to everybody. What is asked of the cluster needs no name."""

    def __init__(self) -> None:
        self.allowed: set[tuple[Operation, str]] = set()

    def allows(self, principal, operation, resource_type, resource_name):
        assert principal is ANONYMOUS
        assert (resource_type is CLUSTER) == (resource_name == CLUSTER_NAME)
        return (operation, resource_name) in self.allowed

    def allow(self, *operations: Operation, name: str = CLUSTER_NAME) -> None:
        self.allowed.update((each, name) for each in operations)


@pytest.fixture
def rules():
    return Rules()


@pytest.fixture
async def door(open_door, rules):
    """A broker with the topics `mine` and `theirs`; nobody may do anything."""
    door = await open_door(authorizer=rules)
    rules.allow(Operation.CREATE)
    answer = await door.ask(api_19_create_topics.API, create("mine", "theirs"))
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    rules.allowed.clear()
    return door


def create(*names):
    return CreateTopicsRequest(topics=tuple(CreatableTopic(name, 1, 1) for name in names))


def codes(results, key="name"):
    return {getattr(each, key): each.error_code for each in results}


async def test_topics_are_created_by_who_may_create_them_or_any(door, rules):
    rules.allow(Operation.CREATE, name="b")
    answer = await door.ask(api_19_create_topics.API, create("a", "b", "c"))
    assert codes(answer.topics) == {"a": NOT_THE_TOPIC, "b": ErrorCode.NONE, "c": NOT_THE_TOPIC}
    assert [door.image.topic(name) is not None for name in "abc"] == [False, True, False]
    rules.allow(Operation.CREATE)
    assert codes((await door.ask(api_19_create_topics.API, create("a"))).topics) == {"a": ErrorCode.NONE}


async def test_who_may_create_and_not_look_is_told_nothing_of_the_settings(door, rules):
    rules.allow(Operation.CREATE)
    (topic,) = (await door.ask(api_19_create_topics.API, create("a"))).topics
    assert (topic.error_code, topic.topic_config_error_code, topic.configs) == (0, NOT_THE_TOPIC, None)
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    rules.allow(Operation.DESCRIBE_CONFIGS, name="b")
    (topic,) = (await door.ask(api_19_create_topics.API, create("b"))).topics
    assert topic.configs
    assert topic.num_partitions == 1


async def test_topics_that_may_not_be_described_are_not_listed_and_not_betrayed(door, rules):
    rules.allow(Operation.DESCRIBE, name="mine")
    answer = await door.ask(api_03_metadata.API, MetadataRequest(topics=None))
    assert [topic.name for topic in answer.topics] == ["mine"]
    names = tuple(MetadataRequestTopic(name=name) for name in ("mine", "theirs", "not.there"))
    answer = await door.ask(api_03_metadata.API, MetadataRequest(topics=names, allow_auto_topic_creation=False))
    assert codes(answer.topics) == {"mine": 0, "theirs": NOT_THE_TOPIC, "not.there": NOT_THE_TOPIC}
    wanted = MetadataRequestTopic(topic_id=door.image.topic("theirs").topic_id, name=None)
    answer = await door.ask(api_03_metadata.API, MetadataRequest(topics=(wanted,)))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]
    several: tuple[tuple[str, ...], ...] = ((), ("mine", "theirs", "not.there"))
    for asked in several:
        request = DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name) for name in asked))
        answer = await door.ask(api_75_describe_topic_partitions.API, request)
        refused = dict.fromkeys(asked[1:], NOT_THE_TOPIC)
        assert codes(answer.topics) == {"mine": 0, **refused}


async def test_a_topic_that_is_asked_for_is_created_for_who_may_create_it(door, rules):
    rules.allow(Operation.DESCRIBE, name="new")
    request = MetadataRequest(topics=(MetadataRequestTopic(name="new"),))
    assert codes((await door.ask(api_03_metadata.API, request)).topics) == {"new": NOT_THE_TOPIC}
    rules.allow(Operation.CREATE, name="new")
    assert codes((await door.ask(api_03_metadata.API, request)).topics) == {"new": ErrorCode.NONE}


async def test_clients_are_told_what_they_may_do(door, rules):
    rules.allow(Operation.DESCRIBE, Operation.WRITE, name="mine")
    rules.allow(Operation.ALTER)
    request = MetadataRequest(topics=(MetadataRequestTopic(name="mine"),), include_topic_authorized_operations=True)
    (topic,) = (await door.ask(api_03_metadata.API, request)).topics
    assert topic.topic_authorized_operations == 1 << Operation.DESCRIBE | 1 << Operation.WRITE
    of_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await door.ask(api_60_describe_cluster.API, of_cluster)
    assert answer.cluster_authorized_operations == 1 << Operation.ALTER


async def test_a_topic_is_deleted_by_who_may_delete_it_by_name_and_by_id(door, rules):
    rules.allow(Operation.DELETE, name="mine")
    theirs = door.image.topic("theirs").topic_id
    states = (DeleteTopicState(name="mine"), DeleteTopicState(name="not.there"), DeleteTopicState(topic_id=theirs))
    answer = await door.ask(api_20_delete_topics.API, DeleteTopicsRequest(topics=states))
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("mine", ErrorCode.NONE),
        ("not.there", NOT_THE_TOPIC),
        (None, NOT_THE_TOPIC),
    ]
    assert [door.image.topic(name) is not None for name in ("mine", "theirs")] == [False, True]


async def test_a_topic_grows_by_who_may_alter_it(door, rules):
    rules.allow(Operation.ALTER, name="mine")
    topics = tuple(CreatePartitionsTopic(name, 3, None) for name in ("theirs", "mine"))
    answer = await door.ask(api_37_create_partitions.API, CreatePartitionsRequest(topics=topics))
    assert list(codes(answer.results).items()) == [("theirs", NOT_THE_TOPIC), ("mine", ErrorCode.NONE)]
    assert len(door.image.topic("theirs").partitions) == 1


@pytest.mark.parametrize("replaces", [False, True])
async def test_settings_are_changed_by_who_may(door, rules, replaces):
    async def alter():
        if replaces:
            resources = tuple(ReplacedResource(kind, name, ()) for kind, name in ((2, "mine"), (2, "theirs"), (4, "")))
            answer = await door.ask(api_33_alter_configs.API, AlterConfigsRequest(resources=resources))
        else:
            changed = tuple(
                AlterConfigsResource(kind, name, ()) for kind, name in ((2, "mine"), (2, "theirs"), (4, ""))
            )
            request = IncrementalAlterConfigsRequest(resources=changed)
            answer = await door.ask(api_44_incremental_alter_configs.API, request)
        return codes(answer.responses, "resource_name")

    rules.allow(Operation.ALTER_CONFIGS, name="mine")
    assert await alter() == {"mine": 0, "theirs": NOT_THE_TOPIC, "": NOT_THE_CLUSTER}
    rules.allow(Operation.ALTER_CONFIGS)
    assert await alter() == {"mine": 0, "theirs": NOT_THE_TOPIC, "": ErrorCode.NONE}


async def test_settings_are_described_to_who_may_see_them(door, rules):
    rules.allow(Operation.DESCRIBE_CONFIGS, name="mine")
    wanted = ((2, "mine"), (2, "theirs"), (2, "not.there"), (4, "1"))
    request = DescribeConfigsRequest(resources=tuple(DescribeConfigsResource(*each, None) for each in wanted))
    answer = await door.ask(api_32_describe_configs.API, request)
    assert codes(answer.results, "resource_name") == {
        "mine": 0,
        "theirs": NOT_THE_TOPIC,
        "not.there": NOT_THE_TOPIC,
        "1": NOT_THE_CLUSTER,
    }


@pytest.mark.parametrize(
    ("api", "request_", "operation"),
    [
        (api_43_elect_leaders.API, ElectLeadersRequest(topic_partitions=None), Operation.ALTER),
        (
            api_46_list_partition_reassignments.API,
            ListPartitionReassignmentsRequest(topics=None),
            Operation.DESCRIBE,
        ),
        (api_74_list_config_resources.API, ListConfigResourcesRequest(), Operation.DESCRIBE_CONFIGS),
    ],
)
async def test_what_concerns_the_cluster_is_done_for_who_may(door, rules, api, request_, operation):
    assert (await door.ask(api, request_)).error_code == NOT_THE_CLUSTER
    rules.allow(operation)
    assert (await door.ask(api, request_)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [2, 5])
async def test_log_directories_are_described_to_who_may_describe_the_cluster(log_door, rules, version):
    await log_door.partition()
    log_door.log_directories = LogDirectoryService(log_door.logs, log_door.replicas, rules)
    request = DescribeLogDirsRequest(topics=None)
    answer = await log_door.ask(api_35_describe_log_dirs.API, request, version)
    assert (answer.error_code, answer.results) == (NOT_THE_CLUSTER if version > 2 else 0, ())
    rules.allow(Operation.DESCRIBE)
    assert (await log_door.ask(api_35_describe_log_dirs.API, request, version)).results[0].topics


async def test_replicas_are_moved_by_who_may_alter_the_cluster(log_door, rules):
    await log_door.partition()
    log_door.log_directories = LogDirectoryService(log_door.logs, log_door.replicas, rules)
    topics = (AlterReplicaLogDirTopic("t", (0,)), AlterReplicaLogDirTopic("x", (0,)))
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(log_door.logs.path, topics),))
    answer = await log_door.ask(api_34_alter_replica_log_dirs.API, request)
    errors = [each.error_code for topic in answer.results for each in topic.partitions]
    assert errors == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


async def test_records_are_deleted_by_who_may_delete_the_topic(log_door, rules):
    partition = await log_door.partition()
    await log_door.append(partition, 3)
    log_door.record_deletion = RecordDeletion(
        log_door.replicas, log_door.logs.checkpoint_log_starts, log_door.timer, rules
    )
    wanted = deletion.DeleteRecordsTopic("t", (deletion.DeleteRecordsPartition(0, 2),))
    request = deletion.DeleteRecordsRequest(topics=(wanted,))
    for code, log_start in ((NOT_THE_TOPIC, 0), (ErrorCode.NONE, 2)):
        (topic,) = (await log_door.ask(api_21_delete_records.API, request)).topics
        assert (topic.partitions[0].error_code, partition.log.log_start_offset) == (code, log_start)
        rules.allow(Operation.DELETE, name="t")


async def test_producers_are_described_to_who_may_read_the_topic(log_door, rules):
    await log_door.partition()
    log_door.active_producers = ActiveProducers(log_door.replicas, rules)
    request = producers.DescribeProducersRequest(topics=(producers.TopicRequest("t", (0,)),))
    for code in (NOT_THE_TOPIC, ErrorCode.NONE):
        (topic,) = (await log_door.ask(api_61_describe_producers.API, request)).topics
        assert topic.partitions[0].error_code == code
        rules.allow(Operation.READ, name="t")
