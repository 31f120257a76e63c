"""Transactions whose partitions, coordinator and group are on different brokers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.coordination.key_partition import partition_of_key
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.server.whole_cluster import WholeBroker, cluster, until

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000
TOPIC = "t"
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
PARTITIONS = [TopicPartition(TOPIC, index) for index in range(3)]


class World:
    """Three brokers, each of which leads one partition of a topic, a third of the groups, and of the transactions."""

    def __init__(self, brokers: list[WholeBroker]) -> None:
        self.brokers = brokers

    @property
    def options(self) -> ClientOptions:
        return ClientOptions.of(",".join(str(each.address) for each in self.brokers))

    async def connected(self) -> AsyncioConnection:
        address = self.brokers[1].address
        return await AsyncioIo().connect(address, ClientOptions((address,)))  # type: ignore[arg-type]

    async def create_topic(self) -> None:
        assignments = tuple(CreatableReplicaAssignment(index, (index + 1,)) for index in range(3))
        connection = await self.connected()
        request = CreateTopicsRequest((CreatableTopic(TOPIC, -1, -1, assignments),))
        answer = await connection.request(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        connection.close()
        for broker in self.brokers:
            await until(lambda broker=broker: broker.image.topic(TOPIC) is not None)  # type: ignore[misc]

    def producer(self, transactional_id: str) -> Producer:
        return Producer(self.options, ProducerOptions(transactional_id=transactional_id))

    def coordinator_of(self, topic: str, key: str) -> int:
        """The broker that leads the partition of a coordinators' topic to which a key belongs."""
        partitions = self.brokers[0].image.topics_by_name[topic].partitions
        return partitions[partition_of_key(key, len(partitions))].leader

    async def read(self, *, count: int, isolation: IsolationLevel) -> set[str]:
        """The values of that many records."""
        options = ConsumerOptions(auto_offset_reset=OffsetReset.EARLIEST, isolation=isolation, auto_commit=False)
        values: set[str] = set()
        async with Consumer(self.options, options) as consumer:
            consumer.assign(PARTITIONS)
            while len(values) < count:
                values |= {record.value.decode() for record in await consumer.poll(timeout_ms=TIMEOUT_MS)}
        return values


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path, 3, SETTINGS) as brokers:
        world = World(brokers)
        await world.create_topic()
        yield world


async def write(producer: Producer, name: str) -> None:
    for partition in PARTITIONS:
        await producer.send(TOPIC, f"{name}-{partition.partition}".encode(), partition=partition.partition)
    await producer.flush()


async def test_a_transaction_ends_on_every_broker_wherever_its_coordinator_is(world: World) -> None:
    coordinators = set()
    kept: set[str] = set()
    for index in range(6):
        name = f"id-{index}"
        async with world.producer(name) as producer:
            await producer.init_transactions()
            coordinators.add(world.coordinator_of("__transaction_state", name))
            for verb, commits in (("kept", True), ("void", False)):
                producer.begin_transaction()
                await write(producer, f"{verb}-{index}")
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        kept |= {f"kept-{index}-{partition}" for partition in range(3)}
    assert coordinators == {1, 2, 3}
    assert await world.read(count=len(kept), isolation=IsolationLevel.READ_COMMITTED) == kept


async def test_offsets_of_groups_on_other_brokers_are_committed_with_the_transaction(world: World) -> None:
    seen = set()
    for index in range(6):
        name, group = f"id-{index}", f"group-{5 - index}"  # counted the other way, or their hashes move together
        async with world.producer(name) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, f"v-{index}")
            await producer.send_offsets_to_transaction({PARTITIONS[0]: index + 1}, group)
            await producer.commit_transaction()
        seen.add((world.coordinator_of("__transaction_state", name), world.coordinator_of("__consumer_offsets", group)))
        async with Consumer(world.options, ConsumerOptions(group_id=group, auto_commit=False)) as consumer:
            assert await consumer.committed(PARTITIONS[:1]) == {PARTITIONS[0]: index + 1}
    assert any(transaction != group for transaction, group in seen)


async def test_a_client_that_asks_as_a_broker_does_has_its_own_rights(world: World) -> None:
    connection = await world.connected()
    topics = (AddPartitionsToTxnTopic("__consumer_offsets", (0,)),)
    request = AddPartitionsToTxnRequest(transactions=(AddPartitionsToTxnTransaction("t", 1, 0, topics=topics),))
    answer = await connection.request(request, AddPartitionsToTxnResponse, timeout_ms=TIMEOUT_MS)
    refused = (AddPartitionsToTxnPartitionResult(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),)
    (result,) = answer.results_by_transaction
    assert result.topic_results == (AddPartitionsToTxnTopicResult("__consumer_offsets", refused),)
    known = await connection.request(MetadataRequest(topics=()), MetadataResponse, timeout_ms=TIMEOUT_MS)
    assert len(known.brokers) == 3
    connection.close()
