"""confluent-kafka: librdkafka under Python."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Message, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, END, PATIENCE_S, Record
from tests.conformance.group_members import ConfluentMember


def record_of(message: Message) -> Record:
    """A message as the tests compare it."""
    assert message.error() is None, message.error()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(
        message.partition(), message.key(), message.value(), headers, message.timestamp()[1], message.offset()
    )


class ConfluentReader:
    """librdkafka's consumer with partitions assigned by hand."""

    def __init__(self, broker: BrokerProcess, topic: str, partitions: int, start: int) -> None:
        self.topic = topic
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        # With the leader known, librdkafka need not wait half a second before it asks again.
        self.consumer.list_topics(topic, PATIENCE_S)
        offset = {BEGINNING: OFFSET_BEGINNING, END: OFFSET_END}.get(start, start)
        self.consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])

    def poll(self) -> list[Record]:
        return [record_of(message) for message in self.consumer.consume(1_000, 0.1)]

    def seek(self, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(self.topic, partition, offset))

    def pause(self, partition: int) -> None:
        self.consumer.pause([TopicPartition(self.topic, partition)])

    def resume(self, partition: int) -> None:
        self.consumer.resume([TopicPartition(self.topic, partition)])

    def close(self) -> None:
        self.consumer.close()


class ConfluentClient:
    """All that the tests do with confluent-kafka."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = ("range", "roundrobin", "cooperative-sticky")
    has_static_membership = True
    note_ends_with = "\0"
    late_time_is_end = False

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    def produce(
        self, topic: str, records: Sequence[Record], *, acks: str = "all", idempotent: bool = False, codec: str = "none"
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": acks,
                "enable.idempotence": idempotent,
                "compression.type": codec,
                "linger.ms": 10,
            }
        )
        offsets = [-1] * len(records)

        for index, record in enumerate(records):

            def delivered(error: object, message: Message, index: int = index) -> None:
                assert error is None, error
                offsets[index] = message.offset()

            producer.produce(
                topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_S) == 0
        return offsets

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> ConfluentReader:
        return ConfluentReader(self.broker, topic, partitions, start)

    def ends(self, topic: str) -> tuple[int, int]:
        reader = self.reader(topic)
        low, high = reader.consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        reader.close()
        return low, high

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        reader = self.reader(topic)
        found = [
            reader.consumer.offsets_for_times([TopicPartition(topic, 0, each)], timeout=PATIENCE_S)[0] for each in times
        ]
        reader.close()
        return [each.offset for each in found]

    def member(self, group: str, topic: str, assignor: str, instance_id: str = "") -> ConfluentMember:
        config = {"group.instance.id": instance_id} if instance_id else {}
        return ConfluentMember(self.broker, group, topic, **{"partition.assignment.strategy": assignor}, **config)

    def close(self) -> None:
        """Nothing is kept open."""
