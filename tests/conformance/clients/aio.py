"""aiokafka."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, END, Record
from tests.conformance.clients.loop_thread import LoopThread
from tests.conformance.group_members import AioMember

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AioReader:
    """aiokafka's consumer with partitions assigned by hand."""

    def __init__(self, loop: LoopThread, broker: BrokerProcess, topic: str, partitions: int, start: int) -> None:
        self.loop = loop
        self.partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

        async def begin() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=broker.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=100
            )
            await consumer.start()
            consumer.assign(self.partitions)
            if start == BEGINNING:
                await consumer.seek_to_beginning(*self.partitions)
            elif start == END:
                await consumer.seek_to_end(*self.partitions)
            else:
                for partition in self.partitions:
                    consumer.seek(partition, start)
            return consumer

        self.consumer: AIOKafkaConsumer = loop.run(begin())

    def poll(self) -> list[Record]:
        polled = self.loop.run(self.consumer.getmany(timeout_ms=100))
        return [
            Record(each.partition, each.key, each.value, tuple(each.headers), each.timestamp, each.offset)
            for records in polled.values()
            for each in records
        ]

    def seek(self, partition: int, offset: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.seek, self.partitions[partition], offset)

    def pause(self, partition: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.pause, self.partitions[partition])

    def resume(self, partition: int) -> None:
        self.loop.loop.call_soon_threadsafe(self.consumer.resume, self.partitions[partition])

    def close(self) -> None:
        self.loop.run(self.consumer.stop())


class AioClient:
    """All that the tests do with aiokafka."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = tuple(ASSIGNORS)
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
            producer = AIOKafkaProducer(
                bootstrap_servers=self.broker.bootstrap,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                compression_type=None if codec == "none" else codec,
                linger_ms=10,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        partition=record.partition,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                metadata = [await future for future in futures]
            return [-1 if each is None else each.offset for each in metadata]

        return self.loop.run(write())

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> AioReader:
        return AioReader(self.loop, self.broker, topic, partitions, start)

    def ends(self, topic: str) -> tuple[int, int]:
        reader = self.reader(topic)
        (low,) = self.loop.run(reader.consumer.beginning_offsets(reader.partitions)).values()
        (high,) = self.loop.run(reader.consumer.end_offsets(reader.partitions)).values()
        reader.close()
        return low, high

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        reader = self.reader(topic)
        partition = reader.partitions[0]
        found = [self.loop.run(reader.consumer.offsets_for_times({partition: each}))[partition] for each in times]
        reader.close()
        return [-1 if each is None else each.offset for each in found]

    def member(self, group: str, topic: str, assignor: str, instance_id: str = "") -> AioMember:
        config = {"group_instance_id": instance_id} if instance_id else {}
        return AioMember(self.broker, group, topic, partition_assignment_strategy=[ASSIGNORS[assignor]], **config)

    def close(self) -> None:
        self.loop.close()
