import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka.api_45_alter_partition_reassignments import API
from ottla.gateways.kafka.api_46_list_partition_reassignments import API as LIST
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.records import BrokerRegisteredRecord
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.broker.rules import Rules


async def reassign(gateway, *wanted, topic="a", version=API.max_version, **fields):
    partitions = tuple(ReassignablePartition(*each) for each in wanted)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, partitions),), **fields)
    answer = await gateway.ask(API, request, version)
    assert answer.error_code == ErrorCode.NONE
    (found,) = answer.responses
    assert found.name == topic
    return [(each.partition_index, each.error_code) for each in found.partitions]


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_a_partition_is_where_it_is_to_be(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    epoch = gateway.image.end_offset
    assert await reassign(gateway, (0, (1,)), (1, (1,)), version=version) == [(0, 0), (1, 0)]
    assert gateway.image.end_offset == epoch


async def test_what_cannot_be_is_refused_by_partition(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    assert await reassign(gateway, (0, (2,)), (0, ()), (0, (1, 1)), (0, None), (1, (1,))) == [
        (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await reassign(gateway, (0, (1,)), topic="x") == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_a_partition_is_moved_and_taken_back(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    other = BrokerRegisteredRecord(2, 1, "b2", 9092, None)
    await gateway.controller.decide(lambda _image: Decision((other,), None))
    assert await reassign(gateway, (0, (2,)), (1, (1, 2)), allow_replication_factor_change=False) == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INVALID_REPLICATION_FACTOR),
    ]
    assert (gateway.image.partition("a", 0).replicas, gateway.image.partition("a", 0).removing) == ((2, 1), (1,))
    answer = await gateway.ask(LIST, ListPartitionReassignmentsRequest(topics=None))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("a", 0)
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((2, 1), (2,), (1,))
    named = ListPartitionReassignmentsRequest(topics=(ListPartitionReassignmentsTopics("a", (0, 1)),))
    assert (await gateway.ask(LIST, named)).topics == answer.topics
    assert await reassign(gateway, (0, None)) == [(0, ErrorCode.NONE)]
    assert gateway.image.partition("a", 0).replicas == (1,)
    assert (await gateway.ask(LIST, named)).topics == ()


async def test_whoever_may_not_alter_the_cluster_moves_nothing(open_gateway):
    rules = Rules()
    rules.deny(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    gateway = await open_gateway(authorizer=rules)
    answer = await gateway.ask(API, AlterPartitionReassignmentsRequest())
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
