"""kafka-python 3."""

from __future__ import annotations

from collections.abc import Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, END, PATIENCE_S, Record
from tests.conformance.group_members import PythonMember

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class PythonReader:
    """kafka-python's consumer with partitions assigned by hand."""

    def __init__(self, broker: BrokerProcess, topic: str, partitions: int, start: int) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=100
        )
        self.partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self.consumer.assign(self.partitions)
        if start == BEGINNING:
            self.consumer.seek_to_beginning(*self.partitions)
        elif start == END:
            self.consumer.seek_to_end(*self.partitions)
        else:
            for partition in self.partitions:
                self.consumer.seek(partition, start)

    def poll(self) -> list[Record]:
        polled = self.consumer.poll(timeout_ms=100)
        return [
            Record(each.partition, each.key, each.value, tuple(each.headers), each.timestamp, each.offset)
            for records in polled.values()
            for each in records
        ]

    def seek(self, partition: int, offset: int) -> None:
        self.consumer.seek(self.partitions[partition], offset)

    def pause(self, partition: int) -> None:
        self.consumer.pause(self.partitions[partition])

    def resume(self, partition: int) -> None:
        self.consumer.resume(self.partitions[partition])

    def close(self) -> None:
        self.consumer.close()


class PythonClient:
    """All that the tests do with kafka-python."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = tuple(ASSIGNORS)
    has_static_membership = True
    note_ends_with = ""
    late_time_is_end = False

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    def produce(
        self, topic: str, records: Sequence[Record], *, acks: str = "all", idempotent: bool = False, codec: str = "none"
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec,
            linger_ms=10,
        )
        futures = [
            producer.send(
                topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        producer.flush(PATIENCE_S)
        offsets = [future.get(PATIENCE_S).offset for future in futures]
        producer.close()
        return offsets

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> PythonReader:
        return PythonReader(self.broker, topic, partitions, start)

    def ends(self, topic: str) -> tuple[int, int]:
        reader = self.reader(topic)
        (low,) = reader.consumer.beginning_offsets(reader.partitions).values()
        (high,) = reader.consumer.end_offsets(reader.partitions).values()
        reader.close()
        return low, high

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        reader = self.reader(topic)
        found = [next(iter(reader.consumer.offsets_for_times({reader.partitions[0]: each}).values())) for each in times]
        reader.close()
        return [-1 if each is None else each.offset for each in found]

    def member(self, group: str, topic: str, assignor: str, instance_id: str = "") -> PythonMember:
        config = {"group_instance_id": instance_id} if instance_id else {}
        return PythonMember(self.broker, group, topic, partition_assignment_strategy=[ASSIGNORS[assignor]], **config)

    def close(self) -> None:
        """Nothing is kept open."""
