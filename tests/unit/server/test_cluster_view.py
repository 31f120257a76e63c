"""What clients are told of a cluster: the same by whichever broker they came."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.server.whole_cluster import WholeBroker, cluster, member, until

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000


async def connected(broker: WholeBroker) -> AsyncioConnection:
    return await AsyncioIo().connect(broker.address, ClientOptions((broker.address,)))  # type: ignore[arg-type]


class World:
    """Three brokers and a connection to each."""

    def __init__(self, brokers: list[WholeBroker], connections: list[AsyncioConnection]) -> None:
        self.brokers = brokers
        self.connections = connections

    @property
    def addresses(self) -> list[tuple[int, str, int]]:
        return [(each.node_id, each.address.host, each.address.port) for each in self.brokers]

    async def create(self, name: str, *leaders: int) -> None:
        """A topic of partitions with one replica each, on these brokers."""
        assignments = tuple(CreatableReplicaAssignment(index, (each,)) for index, each in enumerate(leaders))
        request = CreateTopicsRequest((CreatableTopic(name, -1, -1, assignments),))
        answer = await self.connections[2].request(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        for broker in self.brokers:
            await until(lambda broker=broker: broker.image.topic(name) is not None)  # type: ignore[misc]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path, 3) as brokers:
        connections = [await connected(each) for each in brokers]
        yield World(brokers, connections)
        for connection in connections:
            connection.close()


async def test_every_broker_tells_of_all_brokers_and_of_the_controller(world: World) -> None:
    for connection in world.connections:
        metadata = await connection.request(MetadataRequest(topics=()), MetadataResponse, timeout_ms=TIMEOUT_MS)
        assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == world.addresses
        assert metadata.controller_id == 1
        described = await connection.request(DescribeClusterRequest(), DescribeClusterResponse, timeout_ms=TIMEOUT_MS)
        assert [(each.broker_id, each.host, each.port) for each in described.brokers] == world.addresses
        assert described.controller_id == 1


async def test_coordinators_are_on_different_brokers_and_every_broker_knows_where(world: World) -> None:
    keys = tuple(f"group-{index}" for index in range(30))
    answers = [
        await each.request(
            FindCoordinatorRequest(key_type=0, coordinator_keys=keys), FindCoordinatorResponse, timeout_ms=TIMEOUT_MS
        )
        for each in world.connections
    ]
    found = [[(each.node_id, each.host, each.port, each.error_code) for each in a.coordinators] for a in answers]
    assert found[0] == found[1] == found[2]
    assert {each[:3] for each in found[0]} == set(world.addresses)
    assert {each[3] for each in found[0]} == {ErrorCode.NONE}
    topic = world.brokers[0].image.topic("__consumer_offsets")
    assert topic is not None
    assert topic.replication_factor == 3


async def test_who_does_not_lead_says_who_does_and_where(world: World) -> None:
    await world.create("t", 2)
    topic_id = world.brokers[0].image.topics_by_name["t"].topic_id
    wanted = FetchTopic(topic_id=topic_id, partitions=(FetchPartition(partition=0, partition_max_bytes=1000),))
    answer = await world.connections[0].request(FetchRequest(topics=(wanted,)), FetchResponse, timeout_ms=TIMEOUT_MS)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 0)
    assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [world.addresses[1]]
    asked = ListOffsetsRequest(topics=(ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp=-1),)),), replica_id=-1)
    for connection, code in zip(world.connections, (6, 0, 6), strict=True):
        offsets = await connection.request(asked, ListOffsetsResponse, timeout_ms=TIMEOUT_MS)
        assert offsets.topics[0].partitions[0].error_code == code


async def test_a_broker_that_stopped_is_told_of_when_it_is_asked_for_and_can_be_taken_out(
    world: World, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        fourth = await stack.enter_async_context(member(tmp_path, 4))
        for each in world.brokers:
            await until(lambda each=each: 4 in each.image.live_brokers())  # type: ignore[misc]
        await world.create("t", 4)
        refused = await world.connections[1].request(
            UnregisterBrokerRequest(4), UnregisterBrokerResponse, timeout_ms=TIMEOUT_MS
        )
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        address = fourth.address
    for each in world.brokers:
        await until(lambda each=each: 4 not in each.image.live_brokers())  # type: ignore[misc]
    connection = world.connections[2]
    described = await connection.request(DescribeClusterRequest(), DescribeClusterResponse, timeout_ms=TIMEOUT_MS)
    assert [each.broker_id for each in described.brokers] == [1, 2, 3]
    everybody = await connection.request(
        DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse, timeout_ms=TIMEOUT_MS
    )
    assert [(each.broker_id, each.is_fenced) for each in everybody.brokers][2:] == [(3, False), (4, True)]
    assert everybody.brokers[3].port == address.port
    pages = await connection.request(
        DescribeTopicPartitionsRequest((TopicRequest("t"),), 100),
        DescribeTopicPartitionsResponse,
        timeout_ms=TIMEOUT_MS,
    )
    (partition,) = pages.topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.NONE)
    assert (partition.isr_nodes, partition.eligible_leader_replicas) == ((), (4,))
    assert (partition.last_known_elr, partition.offline_replicas) == ((4,), (4,))
    gone = await connection.request(UnregisterBrokerRequest(4), UnregisterBrokerResponse, timeout_ms=TIMEOUT_MS)
    assert (gone.error_code, gone.error_message) == (ErrorCode.NONE, None)
    assert 4 not in world.brokers[2].image.brokers
