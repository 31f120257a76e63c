import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka.api_55_describe_quorum import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.runtime.clock import ManualClock
from tests.unit.broker.rules import Rules


def of(topic="__cluster_metadata", *indexes):
    return DescribeQuorumRequest((RequestTopicData(topic, tuple(map(RequestPartitionData, indexes or (0,)))),))


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_the_controller_leads_the_metadata_and_is_its_one_voter(gateway, version):
    gateway.clock = ManualClock(5_000)
    answer = await gateway.ask(API, of(), version)
    (partition,) = answer.topics[0].partitions
    image = gateway.image
    assert (answer.error_code, partition.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (partition.leader_id, partition.leader_epoch) == (1, image.controller_epoch)
    assert partition.high_watermark == image.end_offset
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset, partition.observers) == (1, image.end_offset, ())
    assert voter.last_caught_up_timestamp == (5_000 if version >= 1 else -1)
    nodes = [(node.node_id, node.listeners[0].host, node.listeners[0].port) for node in answer.nodes]
    assert nodes == ([(1, "broker.example", 19092)] if version >= 2 else [])


async def test_a_broker_that_is_not_the_controller_tells_of_itself(gateway):
    gateway.clock = ManualClock(5_000)
    gateway.cluster.node_id = 7
    answer = await gateway.ask(API, of(), 2)
    (partition,) = answer.topics[0].partitions
    (voter,), (observer,) = partition.current_voters, partition.observers
    assert (voter.replica_id, observer.replica_id) == (1, 7)
    assert (observer.log_end_offset, observer.last_caught_up_timestamp) == (gateway.image.end_offset, 5_000)


async def test_no_other_partition_has_a_quorum(gateway):
    gateway.clock = ManualClock()
    for request in (of("a"), of("__cluster_metadata", 1)):
        (partition,) = (await gateway.ask(API, request)).topics[0].partitions
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_whoever_may_not_describe_the_cluster_is_told_nothing(open_gateway):
    rules = Rules()
    rules.deny(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    gateway = await open_gateway(authorizer=rules)
    answer = await gateway.ask(API, of())
    assert (answer.error_code, answer.topics) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
