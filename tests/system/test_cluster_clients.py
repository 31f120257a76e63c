"""Python's other clients go on when the broker that leads what they write and coordinates their group is killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.cluster import Cluster, wait_until

NewCluster = Callable[..., Cluster]

FIRST, ALL = 100, 300


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(3, offsets_topic_num_partitions="3", group_initial_rebalance_delay_ms="0").start()
    cluster.wait_until_registered()
    cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync("t")
    return cluster


def values_in(cluster: Cluster) -> Counter[int]:
    """What was written, read once: members of a group may read again what none of them committed."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id=None)
    partitions = [TopicPartition("t", index) for index in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found: Counter[int] = Counter()

    def look() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            found.update(int(each.value) for each in records)
        return all(consumer.position(partition) >= end for partition, end in ends.items())

    wait_until(look, "all records", 60)
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
            for records in consumer.poll(timeout_ms=200).values():
                found.update(int(each.value) for each in records)
            return len(found) >= count

        wait_until(look, f"{count} records", 60)

    sent = [producer.send("t", b"%d" % number) for number in range(FIRST)]
    read(FIRST)
    cluster.leader("t").kill()
    sent += [producer.send("t", b"%d" % number) for number in range(FIRST, ALL)]
    for future in sent:
        future.get(timeout=60)
    read(ALL)
    consumer.commit()
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
        async with asyncio.timeout(60):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.update(int(each.value) for each in records)

    try:
        sent = [await producer.send("t", b"%d" % number, partition=number % 3) for number in range(FIRST)]
        await read(FIRST)
        await asyncio.to_thread(lambda: cluster.leader("t").kill())
        sent += [await producer.send("t", b"%d" % number, partition=number % 3) for number in range(FIRST, ALL)]
        async with asyncio.timeout(60):
            await asyncio.gather(*sent)
        await read(ALL)
        await consumer.commit()
    finally:
        # The library cancels a fetch that waits to be sent to the dead broker again, and passes that on.
        with contextlib.suppress(asyncio.CancelledError):
            await consumer.stop()
        await producer.stop()
    assert await asyncio.to_thread(values_in, cluster) == Counter(range(ALL))
