"""Python's other clients go on when the broker that leads what they write and coordinates their group is killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError, RebalanceInProgressError, RetriableError

from tests.cluster import Cluster, wait_until
from tests.system.leaders import move_leaders

NewCluster = Callable[..., Cluster]

T = TypeVar("T")

FIRST, ALL = 100, 300
PATIENCE_S = 180


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(3, offsets_topic_num_partitions="3", group_initial_rebalance_delay_ms="0").start()
    cluster.wait_until_registered()
    cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync("t")
    return cluster


def until_done(call: Callable[[], T], what: str) -> T:
    """Call kafka-python until it does not ask to be called again: it passes on what it met as it looked for a
    coordinator and for metadata, both of a broker that has just died."""

    def done() -> tuple[T] | None:
        try:
            return (call(),)
        except RetriableError:
            return None

    return wait_until(done, what)[0]


def values_in(cluster: Cluster) -> Counter[int]:
    """What was written, read once: members of a group may read again what none of them committed."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id=None)
    partitions = [TopicPartition("t", index) for index in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = until_done(lambda: consumer.end_offsets(partitions), "the ends of the partitions")
    found: Counter[int] = Counter()

    def position(partition: TopicPartition) -> int | None:
        """None while the library has yet to ask where the partition begins."""
        return until_done(lambda: consumer.position(partition), "a position")

    def look() -> bool:
        for records in until_done(lambda: consumer.poll(timeout_ms=200), "a poll").values():
            found.update(int(each.value) for each in records)
        return all((position(partition) or 0) >= end for partition, end in ends.items())

    wait_until(look, "all records")
    consumer.close()
    return found


def test_kafka_python_goes_on(cluster: Cluster) -> None:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), acks="all", enable_idempotence=True, retries=1_000
    )
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=cluster.bootstrap.split(","),
        group_id="kafka-python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    found: set[int] = set()

    def read(count: int) -> None:
        def look() -> bool:
            for records in until_done(lambda: consumer.poll(timeout_ms=200), "a poll").values():
                found.update(int(each.value) for each in records)
            return len(found) >= count

        wait_until(look, f"{count} records")

    def commit() -> bool:
        """Who has lost its place in the group with its coordinator polls until it is back, and commits then."""
        try:
            consumer.commit()
        except (CommitFailedError, RebalanceInProgressError):
            until_done(lambda: consumer.poll(timeout_ms=200), "a poll")
            return False
        except RetriableError:
            return False
        return True

    sent = [producer.send("t", b"%d" % number) for number in range(FIRST)]
    read(FIRST)
    cluster.leader("t").kill()
    sent += [producer.send("t", b"%d" % number) for number in range(FIRST, ALL)]
    for future in sent:
        future.get(timeout=PATIENCE_S)
    read(ALL)
    wait_until(commit, "a commit")
    consumer.close()
    producer.close()
    assert values_in(cluster) == Counter(range(ALL))


async def test_aiokafka_goes_on(cluster: Cluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True)
    consumer = AIOKafkaConsumer(
        "t",
        bootstrap_servers=cluster.bootstrap,
        group_id="aiokafka",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await producer.start()
    await consumer.start()
    found: set[int] = set()

    async def read(count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.update(int(each.value) for each in records)

    try:
        sent = [await producer.send("t", b"%d" % number, partition=number % 3) for number in range(FIRST)]
        await read(FIRST)
        await asyncio.to_thread(lambda: cluster.leader("t").kill())
        sent += [await producer.send("t", b"%d" % number, partition=number % 3) for number in range(FIRST, ALL)]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*sent)
        await read(ALL)
        await consumer.commit()
    finally:
        # The library cancels a fetch that waits to be sent to the dead broker again, and passes that on.
        with contextlib.suppress(asyncio.CancelledError):
            await consumer.stop()
        await producer.stop()
    assert await asyncio.to_thread(values_in, cluster) == Counter(range(ALL))


@pytest.mark.long
async def test_aiokafka_goes_on_at_its_offsets_when_its_coordinator_has_moved(cluster: Cluster) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="moved", enable_auto_commit=False)
    partition = AiokafkaPartition("t", 0)
    consumer.assign([partition])
    await consumer.start()
    try:
        await consumer.commit({partition: 5})
        await asyncio.to_thread(cluster.wait_until_in_sync, "__consumer_offsets")
        for _ in range(3):
            await asyncio.to_thread(move_leaders, cluster, "__consumer_offsets")
            async with asyncio.timeout(PATIENCE_S):
                assert await consumer.committed(partition) == 5
    finally:
        await consumer.stop()


@pytest.mark.long
def test_librdkafka_goes_on_at_its_offsets_when_its_coordinator_has_moved(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "moved",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )

    def read() -> Message | None:
        message = consumer.poll(0.2)
        return message if message is not None and message.error() is None else None

    for number in range(4):
        producer.produce("t", b"%d" % number, partition=0)
        producer.flush(PATIENCE_S)
        # With each assignment the library asks for the committed offset, of the coordinator that it knew.
        consumer.assign([ConfluentPartition("t", 0)])
        message = wait_until(read, f"record {number}")
        assert message.value() == b"%d" % number
        consumer.commit(message, asynchronous=False)
        consumer.unassign()
        cluster.wait_until_in_sync("__consumer_offsets")
        move_leaders(cluster, "__consumer_offsets")
    consumer.close()
