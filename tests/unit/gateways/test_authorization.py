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
    api_22_init_producer_id,
    api_29_describe_acls,
    api_30_create_acls,
    api_31_delete_acls,
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
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
NOT_THE_TOPIC, NOT_THE_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Rules:
    """Allows what was said, to everybody. What is asked of the cluster needs no name."""

    def __init__(self) -> None:
        self.allowed: set[tuple[Operation, str]] = set()

    version = 0

    def allows_on_any(self, principal, operation, resource_type):
        assert resource_type is TOPIC
        return any(each is operation and name != CLUSTER_NAME for each, name in self.allowed)

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
async def gateway(open_gateway, rules):
    """A broker with the topics `mine` and `theirs`; nobody may do anything."""
    gateway = await open_gateway(authorizer=rules)
    rules.allow(Operation.CREATE)
    answer = await gateway.ask(api_19_create_topics.API, create("mine", "theirs"))
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    rules.allowed.clear()
    return gateway


def create(*names):
    return CreateTopicsRequest(topics=tuple(CreatableTopic(name, 1, 1) for name in names))


def codes(results, key="name"):
    return {getattr(each, key): each.error_code for each in results}


@pytest.mark.parametrize(
    ("operation", "name", "code"),
    [
        (Operation.IDEMPOTENT_WRITE, CLUSTER_NAME, ErrorCode.NONE),
        (Operation.WRITE, "mine", ErrorCode.NONE),
        (Operation.WRITE, CLUSTER_NAME, NOT_THE_CLUSTER),
        (Operation.READ, "mine", NOT_THE_CLUSTER),
    ],
)
async def test_a_producer_id_is_for_who_may_write_idempotently_or_to_some_topic(gateway, rules, operation, name, code):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    rules.allow(operation, name=name)
    answer = await gateway.ask(api_22_init_producer_id.API, request)
    assert (answer.error_code, answer.producer_id >= 0) == (code, code is ErrorCode.NONE)


async def test_there_are_no_rules_to_see_or_change_for_who_may_not(gateway, rules):
    creations = CreateAclsRequest((AclCreation(2, "a", 3, "User:a", "*", 3, 3),))

    async def answers():
        described = await gateway.ask(api_29_describe_acls.API, DescribeAclsRequest())
        (created,) = (await gateway.ask(api_30_create_acls.API, creations)).results
        (deleted,) = (
            await gateway.ask(api_31_delete_acls.API, DeleteAclsRequest((DeleteAclsFilter(),)))
        ).filter_results
        return described.error_code, created.error_code, deleted.error_code

    assert await answers() == (NOT_THE_CLUSTER,) * 3
    rules.allow(Operation.DESCRIBE)
    assert await answers() == (ErrorCode.SECURITY_DISABLED, NOT_THE_CLUSTER, NOT_THE_CLUSTER)
    rules.allow(Operation.ALTER)
    assert await answers() == (ErrorCode.SECURITY_DISABLED,) * 3


async def test_topics_are_created_by_who_may_create_them_or_any(gateway, rules):
    rules.allow(Operation.CREATE, name="b")
    answer = await gateway.ask(api_19_create_topics.API, create("a", "b", "c"))
    assert codes(answer.topics) == {"a": NOT_THE_TOPIC, "b": ErrorCode.NONE, "c": NOT_THE_TOPIC}
    assert [gateway.image.topic(name) is not None for name in "abc"] == [False, True, False]
    rules.allow(Operation.CREATE)
    assert codes((await gateway.ask(api_19_create_topics.API, create("a"))).topics) == {"a": ErrorCode.NONE}


async def test_who_may_create_and_not_look_is_told_nothing_of_the_settings(gateway, rules):
    rules.allow(Operation.CREATE)
    (topic,) = (await gateway.ask(api_19_create_topics.API, create("a"))).topics
    assert (topic.error_code, topic.topic_config_error_code, topic.configs) == (0, NOT_THE_TOPIC, None)
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    rules.allow(Operation.DESCRIBE_CONFIGS, name="b")
    (topic,) = (await gateway.ask(api_19_create_topics.API, create("b"))).topics
    assert topic.configs
    assert topic.num_partitions == 1


async def test_topics_that_may_not_be_described_are_not_listed_and_not_betrayed(gateway, rules):
    rules.allow(Operation.DESCRIBE, name="mine")
    answer = await gateway.ask(api_03_metadata.API, MetadataRequest(topics=None))
    assert [topic.name for topic in answer.topics] == ["mine"]
    names = tuple(MetadataRequestTopic(name=name) for name in ("mine", "theirs", "not.there"))
    answer = await gateway.ask(api_03_metadata.API, MetadataRequest(topics=names, allow_auto_topic_creation=False))
    assert codes(answer.topics) == {"mine": 0, "theirs": NOT_THE_TOPIC, "not.there": NOT_THE_TOPIC}
    wanted = MetadataRequestTopic(topic_id=gateway.image.topic("theirs").topic_id, name=None)
    answer = await gateway.ask(api_03_metadata.API, MetadataRequest(topics=(wanted,)))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]
    several: tuple[tuple[str, ...], ...] = ((), ("mine", "theirs", "not.there"))
    for asked in several:
        request = DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name) for name in asked))
        answer = await gateway.ask(api_75_describe_topic_partitions.API, request)
        refused = dict.fromkeys(asked[1:], NOT_THE_TOPIC)
        assert codes(answer.topics) == {"mine": 0, **refused}


async def test_a_topic_that_is_asked_for_is_created_for_who_may_create_it(gateway, rules):
    rules.allow(Operation.DESCRIBE, name="new")
    request = MetadataRequest(topics=(MetadataRequestTopic(name="new"),))
    assert codes((await gateway.ask(api_03_metadata.API, request)).topics) == {"new": NOT_THE_TOPIC}
    rules.allow(Operation.CREATE, name="new")
    assert codes((await gateway.ask(api_03_metadata.API, request)).topics) == {"new": ErrorCode.NONE}


async def test_clients_are_told_what_they_may_do(gateway, rules):
    rules.allow(Operation.DESCRIBE, Operation.WRITE, name="mine")
    rules.allow(Operation.ALTER)
    request = MetadataRequest(topics=(MetadataRequestTopic(name="mine"),), include_topic_authorized_operations=True)
    (topic,) = (await gateway.ask(api_03_metadata.API, request)).topics
    assert topic.topic_authorized_operations == 1 << Operation.DESCRIBE | 1 << Operation.WRITE
    of_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await gateway.ask(api_60_describe_cluster.API, of_cluster)
    assert answer.cluster_authorized_operations == 1 << Operation.ALTER


async def test_a_topic_is_deleted_by_who_may_delete_it_by_name_and_by_id(gateway, rules):
    rules.allow(Operation.DELETE, name="mine")
    theirs = gateway.image.topic("theirs").topic_id
    states = (DeleteTopicState(name="mine"), DeleteTopicState(name="not.there"), DeleteTopicState(topic_id=theirs))
    answer = await gateway.ask(api_20_delete_topics.API, DeleteTopicsRequest(topics=states))
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("mine", ErrorCode.NONE),
        ("not.there", NOT_THE_TOPIC),
        (None, NOT_THE_TOPIC),
    ]
    assert [gateway.image.topic(name) is not None for name in ("mine", "theirs")] == [False, True]


async def test_a_topic_grows_by_who_may_alter_it(gateway, rules):
    rules.allow(Operation.ALTER, name="mine")
    topics = tuple(CreatePartitionsTopic(name, 3, None) for name in ("theirs", "mine"))
    answer = await gateway.ask(api_37_create_partitions.API, CreatePartitionsRequest(topics=topics))
    assert list(codes(answer.results).items()) == [("theirs", NOT_THE_TOPIC), ("mine", ErrorCode.NONE)]
    assert len(gateway.image.topic("theirs").partitions) == 1


@pytest.mark.parametrize("replaces", [False, True])
async def test_settings_are_changed_by_who_may(gateway, rules, replaces):
    async def alter():
        if replaces:
            resources = tuple(ReplacedResource(kind, name, ()) for kind, name in ((2, "mine"), (2, "theirs"), (4, "")))
            answer = await gateway.ask(api_33_alter_configs.API, AlterConfigsRequest(resources=resources))
        else:
            changed = tuple(
                AlterConfigsResource(kind, name, ()) for kind, name in ((2, "mine"), (2, "theirs"), (4, ""))
            )
            request = IncrementalAlterConfigsRequest(resources=changed)
            answer = await gateway.ask(api_44_incremental_alter_configs.API, request)
        return codes(answer.responses, "resource_name")

    rules.allow(Operation.ALTER_CONFIGS, name="mine")
    assert await alter() == {"mine": 0, "theirs": NOT_THE_TOPIC, "": NOT_THE_CLUSTER}
    rules.allow(Operation.ALTER_CONFIGS)
    assert await alter() == {"mine": 0, "theirs": NOT_THE_TOPIC, "": ErrorCode.NONE}


async def test_settings_are_described_to_who_may_see_them(gateway, rules):
    rules.allow(Operation.DESCRIBE_CONFIGS, name="mine")
    wanted = ((2, "mine"), (2, "theirs"), (2, "not.there"), (4, "1"))
    request = DescribeConfigsRequest(resources=tuple(DescribeConfigsResource(*each, None) for each in wanted))
    answer = await gateway.ask(api_32_describe_configs.API, request)
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
async def test_what_concerns_the_cluster_is_done_for_who_may(gateway, rules, api, request_, operation):
    assert (await gateway.ask(api, request_)).error_code == NOT_THE_CLUSTER
    rules.allow(operation)
    assert (await gateway.ask(api, request_)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [2, 5])
async def test_log_directories_are_described_to_who_may_describe_the_cluster(log_gateway, rules, version):
    await log_gateway.partition()
    log_gateway.log_directories = LogDirectoryService(log_gateway.logs, log_gateway.replicas, rules)
    request = DescribeLogDirsRequest(topics=None)
    answer = await log_gateway.ask(api_35_describe_log_dirs.API, request, version)
    assert (answer.error_code, answer.results) == (NOT_THE_CLUSTER if version > 2 else 0, ())
    rules.allow(Operation.DESCRIBE)
    assert (await log_gateway.ask(api_35_describe_log_dirs.API, request, version)).results[0].topics


async def test_replicas_are_moved_by_who_may_alter_the_cluster(log_gateway, rules):
    await log_gateway.partition()
    log_gateway.log_directories = LogDirectoryService(log_gateway.logs, log_gateway.replicas, rules)
    topics = (AlterReplicaLogDirTopic("t", (0,)), AlterReplicaLogDirTopic("x", (0,)))
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(log_gateway.logs.path, topics),))
    answer = await log_gateway.ask(api_34_alter_replica_log_dirs.API, request)
    errors = [each.error_code for topic in answer.results for each in topic.partitions]
    assert errors == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


async def test_records_are_deleted_by_who_may_delete_the_topic(log_gateway, rules):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 3)
    log_gateway.record_deletion = RecordDeletion(
        log_gateway.replicas, log_gateway.logs.checkpoint_log_starts, log_gateway.timer, rules
    )
    wanted = deletion.DeleteRecordsTopic("t", (deletion.DeleteRecordsPartition(0, 2),))
    request = deletion.DeleteRecordsRequest(topics=(wanted,))
    for code, log_start in ((NOT_THE_TOPIC, 0), (ErrorCode.NONE, 2)):
        (topic,) = (await log_gateway.ask(api_21_delete_records.API, request)).topics
        assert (topic.partitions[0].error_code, partition.log.log_start_offset) == (code, log_start)
        rules.allow(Operation.DELETE, name="t")


async def test_producers_are_described_to_who_may_read_the_topic(log_gateway, rules):
    await log_gateway.partition()
    log_gateway.active_producers = ActiveProducers(log_gateway.replicas, rules)
    request = producers.DescribeProducersRequest(topics=(producers.TopicRequest("t", (0,)),))
    for code in (NOT_THE_TOPIC, ErrorCode.NONE):
        (topic,) = (await log_gateway.ask(api_61_describe_producers.API, request)).topics
        assert topic.partitions[0].error_code == code
        rules.allow(Operation.READ, name="t")
