"""Ottla's own client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client import (
    ClientOptions,
    Consumer,
    ConsumerOptions,
    GroupProtocol,
    OffsetReset,
    Producer,
    ProducerOptions,
    SubscriptionPattern,
)
from ottla.client.producing.produce import Acks
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, END, Record
from tests.conformance.clients.loop_thread import LoopThread

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class OttlaReader:
    """Ottla's consumer with partitions assigned by hand."""

    def __init__(self, loop: LoopThread, broker: BrokerProcess, topic: str, partitions: int, start: int) -> None:
        self.loop = loop
        self.partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

        async def begin() -> Consumer:
            consumer = Consumer(ClientOptions.of(broker.bootstrap), ConsumerOptions(fetch_max_wait_ms=100))
            await consumer.start()
            consumer.assign(self.partitions)
            if start in (BEGINNING, END):
                await consumer.seek_to(dict.fromkeys(self.partitions, start))
            else:
                for partition in self.partitions:
                    consumer.seek(partition, start)
            return consumer

        self.consumer: Consumer = loop.run(begin())

    def poll(self) -> list[Record]:
        return [
            Record(each.partition, each.key, each.value, tuple(each.headers), each.timestamp_ms, each.offset)
            for each in self.loop.run(self.consumer.poll(timeout_ms=100))
        ]

    def seek(self, partition: int, offset: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.seek, self.partitions[partition], offset)

    def pause(self, partition: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.pause, [self.partitions[partition]])

    def resume(self, partition: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.resume, [self.partitions[partition]])

    def close(self) -> None:
        self.loop.run(self.consumer.close())


class OttlaMember:
    """Ottla's consumer in the protocol of KIP-848."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str | SubscriptionPattern, **options: Any) -> None:
        self.loop = LoopThread()
        self.rebalances = 0

        async def begin() -> Consumer:
            settings = {
                "group_protocol": GroupProtocol.CONSUMER,
                "auto_offset_reset": OffsetReset.EARLIEST,
                "auto_commit": False,
                "fetch_max_wait_ms": 100,
                **options,
            }
            consumer = Consumer(ClientOptions.of(broker.bootstrap), ConsumerOptions(group_id=group, **settings))
            await consumer.start()
            consumer.subscribe([topic] if isinstance(topic, str) else topic, on_assigned=self._on_assigned)
            return consumer

        self.consumer: Consumer = self.loop.run(begin())

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def poll(self) -> list[bytes]:
        return [each.value for each in self.loop.run(self.consumer.poll(timeout_ms=100)) if each.value is not None]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def topics(self) -> set[str]:
        return {each.topic for each in self.consumer.assignment()}

    def commit(self, metadata: str = "") -> None:
        self.loop.run(self.consumer.commit())

    def close(self) -> None:
        self.loop.run(self.consumer.close())
        self.loop.close()


class OttlaClient:
    """All that the tests do with Ottla's client."""

    codecs = CODECS
    assignors = ()
    has_static_membership = True
    note_ends_with = ""
    late_time_is_end = False

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.loop = LoopThread()

    def produce(
        self, topic: str, records: Sequence[Record], *, acks: str = "all", idempotent: bool = False, codec: str = "none"
    ) -> list[int]:
        async def write() -> list[int]:
            options = ProducerOptions(
                acks={"0": Acks.NONE, "1": Acks.LEADER, "all": Acks.ALL}[acks],
                idempotent=idempotent,
                compression=CODECS.index(codec),
                linger_ms=10,
            )
            async with Producer(ClientOptions.of(self.broker.bootstrap), options) as producer:
                deliveries = [
                    await producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=record.headers,
                    )
                    for record in records
                ]
                return [(await delivery).offset for delivery in deliveries]

        return self.loop.run(write())

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> OttlaReader:
        return OttlaReader(self.loop, self.broker, topic, partitions, start)

    def ends(self, topic: str) -> tuple[int, int]:
        reader = self.reader(topic)
        partition = reader.partitions[0]
        low, high = (self.loop.run(reader.consumer.list_offsets({partition: at}))[partition] for at in (-2, -1))
        reader.close()
        return low.offset, high.offset

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        reader = self.reader(topic)
        partition = reader.partitions[0]
        found = [self.loop.run(reader.consumer.list_offsets({partition: each}))[partition] for each in times]
        reader.close()
        return [each.offset for each in found]

    def close(self) -> None:
        self.loop.close()
