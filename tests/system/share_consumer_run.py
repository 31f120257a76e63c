"""What a share consumer of Ottla's client is relied on for, on whatever broker runs: Ottla's, or Kafka's.

Each function gets the address of a broker and a name of its own for topic and group.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client import (
    AcknowledgementMode,
    AcknowledgeType,
    AcquireMode,
    Admin,
    ClientError,
    ClientOptions,
    ConfigResource,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareConsumerOptions,
)
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.errors import BrokerError, InvalidOptionError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

POLLS_MAX = 240
"""Polls of half a second until what is waited for must have come."""


async def prepare(bootstrap: str, name: str, partitions: int = 1, replicas: int = -1, **settings: str) -> None:
    """A topic, and a group of the same name that begins at the beginning."""
    cluster = Cluster(ClientOptions.of(bootstrap), AsyncioIo())
    await cluster.connect()
    admin = Admin(cluster)
    await admin.create_topic(NewTopic(name, partitions, replicas))
    cluster.close()
    await configure(bootstrap, name, share_auto_offset_reset="earliest", **settings)


async def configure(bootstrap: str, group: str, **settings: str) -> None:
    """Set what holds for a group."""
    cluster = Cluster(ClientOptions.of(bootstrap), AsyncioIo())
    await cluster.connect()
    given = {key.replace("_", "."): value for key, value in settings.items()}
    await Admin(cluster).alter_configs(ConfigResource.group(group), given)
    cluster.close()


async def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Raise the number of partitions of a topic."""
    cluster = Cluster(ClientOptions.of(bootstrap), AsyncioIo())
    await cluster.connect()
    await Admin(cluster).create_partitions(topic, count)
    cluster.close()


async def produce(bootstrap: str, topic: str, *values: str) -> None:
    """Records in partition 0."""
    async with Producer(ClientOptions.of(bootstrap)) as producer:
        for value in values:
            await producer.send(topic, value.encode(), partition=0)


def explicit(name: str, **options: object) -> ShareConsumerOptions:
    """Options of a member that acknowledges each record."""
    mode = {"acknowledgement_mode": AcknowledgementMode.EXPLICIT}
    return ShareConsumerOptions(name, **{**mode, **options})  # type: ignore[arg-type]


async def some(consumer: ShareConsumer, count: int = 1, each: Callable[[ShareRecord], None] | None = None) -> list[str]:
    """The next values, at least `count`; `each` is called with every record before the next poll."""
    found: list[ShareRecord] = []
    for _ in range(POLLS_MAX):
        records = await consumer.poll(timeout_ms=500)
        found += records
        for record in records:
            if each is not None:
                each(record)
        if len(found) >= count:
            return [(record.value or b"").decode() for record in found]
    raise AssertionError(f"{len(found)} of {count} records came")


async def implicit_acknowledgement(bootstrap: str, name: str) -> None:
    """The next poll or a commit accepts; closing releases what was returned and not accepted."""
    await prepare(bootstrap, name)
    await produce(bootstrap, name, "a", "b", "c")
    told: list[tuple[TopicPartition, list[int], ClientError | None]] = []
    where = TopicPartition(name, 0)
    options = ClientOptions.of(bootstrap)
    async with ShareConsumer(options, name, on_acknowledged=lambda *each: told.append(each)) as consumer:
        consumer.subscribe([name])
        assert await some(consumer, 3) == ["a", "b", "c"]
        assert consumer.assignment() == [where]
        assert await consumer.commit() == {where: None}
        assert told == [(where, [0, 1, 2], None)]
        with pytest.raises(InvalidOptionError, match="this consumer acknowledges implicitly"):
            consumer.acknowledge((name, 0, 0))
        await produce(bootstrap, name, "d")
        assert await some(consumer) == ["d"]
    async with ShareConsumer(options, name) as consumer:
        consumer.subscribe([name])
        [record] = await one_poll(consumer)
        assert (record.value, record.delivery_count) == (b"d", 2)
        await consumer.poll(timeout_ms=0)  # accepts it
        assert await consumer.commit() in ({}, {where: None})
    async with ShareConsumer(options, name) as consumer:
        consumer.subscribe([name])
        await produce(bootstrap, name, "e")
        assert await some(consumer) == ["e"]


async def one_poll(consumer: ShareConsumer) -> list[ShareRecord]:
    """The first poll that returns something."""
    for _ in range(POLLS_MAX):
        if records := await consumer.poll(timeout_ms=500):
            return records
    raise AssertionError("no record came")


async def explicit_acknowledgement(bootstrap: str, name: str) -> None:
    """Accept, release, reject and renew do what they say."""
    await prepare(bootstrap, name)
    await produce(bootstrap, name, *"abcde")
    async with ShareConsumer(ClientOptions.of(bootstrap), explicit(name)) as consumer:
        consumer.subscribe([name])
        records = await one_poll(consumer)
        assert [record.value for record in records] == [b"a", b"b", b"c", b"d", b"e"]
        with pytest.raises(InvalidOptionError, match="5 records of the last poll are not acknowledged"):
            await consumer.poll()
        kinds = ("ACCEPT", "RELEASE", "RENEW", "REJECT", "RENEW")
        for record, kind in zip(records, kinds, strict=True):
            consumer.acknowledge(record, AcknowledgeType[kind])
        renewed = await consumer.poll()
        assert [(record.value, record.delivery_count) for record in renewed] == [(b"c", 1), (b"e", 1)]
        for record in renewed:
            consumer.acknowledge(record)
        [released] = await one_poll(consumer)
        assert (released.value, released.delivery_count) == (b"b", 2)
        consumer.acknowledge((name, 0, released.offset))
        assert await consumer.commit() == {TopicPartition(name, 0): None}
        with pytest.raises(InvalidOptionError, match="cannot be acknowledged"):
            consumer.acknowledge(released)
    async with ShareConsumer(ClientOptions.of(bootstrap), explicit(name)) as consumer:
        consumer.subscribe([name])
        await produce(bootstrap, name, "f")
        [failed] = await one_poll(consumer)
        with pytest.raises(InvalidOptionError, match=f"a record .* offset {failed.offset} of {name}-0 first"):
            await consumer.poll()
        assert consumer.unacknowledged() == [failed]
        for record in consumer.unacknowledged():
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        assert consumer.unacknowledged() == []
        [again] = await one_poll(consumer)
        assert (again.value, again.delivery_count) == (b"f", 2)
        consumer.acknowledge(again)


async def shared_work(bootstrap: str, name: str) -> None:
    """Two members of one partition share its records; no record goes to both."""
    await prepare(bootstrap, name)
    options = explicit(name, acquire_mode=AcquireMode.RECORD_LIMIT, max_poll_records=5)
    async with (
        ShareConsumer(ClientOptions.of(bootstrap), options) as one,
        ShareConsumer(ClientOptions.of(bootstrap), options) as other,
    ):
        for consumer in (one, other):
            consumer.subscribe([name])
        await produce(bootstrap, name, *map(str, range(40)))
        found: list[str] = []
        sizes = set()
        for _ in range(POLLS_MAX):
            for consumer in (one, other):
                records = await consumer.poll(timeout_ms=200)
                sizes.add(len(records))
                for record in records:
                    found.append((record.value or b"").decode())
                    consumer.acknowledge(record)
            if len(found) >= 40:
                break
        assert sorted(map(int, found)) == list(range(40))
        assert max(sizes) <= 5
        assert one.assignment() == other.assignment() == [TopicPartition(name, 0)]


async def expired_lock(bootstrap: str, name: str, lock_ms: int) -> None:
    """A record that was not acknowledged in time is another's: its acknowledgement is refused.

    The other member's lock lasts for a minute, as it has to acknowledge in time.
    """
    await prepare(bootstrap, name, share_record_lock_duration_ms=str(lock_ms))
    await produce(bootstrap, name, "a")
    async with (
        ShareConsumer(ClientOptions.of(bootstrap), explicit(name)) as one,
        ShareConsumer(ClientOptions.of(bootstrap), explicit(name)) as other,
    ):
        one.subscribe([name])
        [record] = await one_poll(one)
        assert one.lock_timeout_ms == lock_ms
        await configure(bootstrap, name, share_record_lock_duration_ms="60000")
        other.subscribe([name])
        [again] = await one_poll(other)
        assert again.delivery_count == 2
        one.acknowledge(record)
        [(where, error)] = (await one.commit()).items()
        assert where == TopicPartition(name, 0)
        assert isinstance(error, BrokerError)
        assert error.code == ErrorCode.INVALID_RECORD_STATE
        other.acknowledge(again)
        assert await other.commit() == {where: None}
