"""Transactions over a whole broker: real files, real sockets, the client of this package."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.admin.transaction_admin import TransactionAdmin
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import ProducerFencedError, TransactionAbortableError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.server.server import Server
from tests.unit.server.whole_broker import broker, client

ORDERS = TopicPartition("orders", 0)
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with broker(tmp_path, SETTINGS) as running, client(running) as cluster:
        topic = CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
        await cluster.ask_any(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        yield running


def options_of(server: Server) -> ClientOptions:
    return ClientOptions.of(str(server.address), retry_backoff_ms=5, retry_backoff_max_ms=20)


async def producer_of(server: Server, transactional_id: str = "t") -> Producer:
    producer = Producer(options_of(server), ProducerOptions(transactional_id=transactional_id))
    await producer.start()
    await producer.init_transactions()
    return producer


async def read(server: Server, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> list[bytes | None]:
    """What there is in the first partition, up to a record `end` that is written for it."""
    async with Producer(options_of(server)) as producer:
        await producer.send_and_wait("orders", b"end", partition=0)
    values: list[bytes | None] = []
    options = ConsumerOptions(isolation=isolation, auto_offset_reset=OffsetReset.EARLIEST)
    async with Consumer(options_of(server), options, io=AsyncioIo()) as consumer:
        consumer.assign([ORDERS])
        async for record in consumer:
            if record.value == b"end":
                break
            values.append(record.value)
    return values


async def test_what_is_committed_is_read_and_what_is_aborted_is_not(server: Server):
    producer = await producer_of(server)
    async with producer.transaction():
        await producer.send("orders", b"one", partition=0)
        await producer.send("orders", b"other", partition=1)

    async def fails() -> None:
        async with producer.transaction():
            await (await producer.send("orders", b"void", partition=0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    async with producer.transaction():
        await producer.send("orders", b"two", partition=0)
    await producer.close()
    assert await read(server) == [b"one", b"two"]


async def test_offsets_hold_with_the_transaction_they_are_part_of(server: Server):
    producer = await producer_of(server)
    async with Consumer(options_of(server), ConsumerOptions(group_id="g")) as consumer:
        consumer.assign([ORDERS])
        producer.begin_transaction()
        await producer.send("orders", b"one", partition=0)
        await producer.send_offsets_to_transaction({ORDERS: 3}, "g", consumer.membership)
        await producer.commit_transaction()
        assert await consumer.committed([ORDERS]) == {ORDERS: 3}
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({ORDERS: 9}, "g", consumer.membership)
        await producer.abort_transaction()
        assert await consumer.committed([ORDERS]) == {ORDERS: 3}
    await producer.close()


async def test_the_next_producer_of_an_id_fences_the_one_before(server: Server):
    first = await producer_of(server)
    first.begin_transaction()
    await (await first.send("orders", b"void", partition=0))
    second = await producer_of(server)
    with pytest.raises(ProducerFencedError):
        await first.commit_transaction()
    with pytest.raises(ProducerFencedError):
        first.begin_transaction()
    async with second.transaction():
        await second.send("orders", b"good", partition=0)
    await first.close()
    await second.close()
    assert await read(server) == [b"good"]


async def test_a_fenced_producers_records_end_its_transaction(server: Server):
    first = await producer_of(server)
    first.begin_transaction()
    await (await first.send("orders", b"void", partition=0))
    second = await producer_of(server)
    delivery = await first.send("orders", b"late", partition=0)
    await first.flush()
    assert delivery.error is not None
    with pytest.raises(TransactionAbortableError):
        await first.commit_transaction()
    await first.close()
    await second.close()


async def test_transactions_are_listed_described_and_aborted(server: Server):
    producer = await producer_of(server, "pay")
    producer.begin_transaction()
    await (await producer.send("orders", b"void", partition=0))
    async with client(server) as cluster:
        admin = TransactionAdmin(cluster)
        [listed] = await admin.list_transactions(states=["Ongoing"])
        assert (listed.transactional_id, listed.state) == ("pay", "Ongoing")
        described = await admin.describe("pay")
        assert (described.partitions, described.state) == ((ORDERS,), "Ongoing")
        [opened] = await admin.open_in([ORDERS])
        assert (opened.producer_id, opened.start_offset) == (described.producer_id, 0)
        assert await admin.find_hanging([ORDERS], older_than_ms=-1, now_ms=opened.last_timestamp_ms) == []
        await admin.fence("pay")
        assert await admin.open_in([ORDERS]) == []
        assert (await admin.describe("pay")).state == "Empty"
    await producer.close(deliver=False)


async def test_transactions_are_there_after_a_restart(tmp_path: Path):
    async with broker(tmp_path, SETTINGS) as first:
        async with client(first) as cluster:
            topic = CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
            await cluster.ask_any(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        producer = await producer_of(first)
        async with producer.transaction():
            await producer.send("orders", b"one", partition=0)
            await producer.send_offsets_to_transaction({ORDERS: 5}, "g")
        producer.begin_transaction()
        await (await producer.send("orders", b"open", partition=0))
        await producer.send_offsets_to_transaction({ORDERS: 8}, "g")
        await producer.close(deliver=False)
    async with broker(tmp_path, SETTINGS) as second:
        async with client(second) as cluster:
            assert (await TransactionAdmin(cluster).describe("t")).state == "Ongoing"
        producer = await producer_of(second)
        async with producer.transaction():
            await producer.send("orders", b"two", partition=0)
        await producer.close()
        assert await read(second) == [b"one", b"two"]
        async with Consumer(options_of(second), ConsumerOptions(group_id="g")) as consumer:
            assert await consumer.committed([ORDERS]) == {ORDERS: 5}
