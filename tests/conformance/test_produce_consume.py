"""What is particular to writing and reading: files that others can read, records that are refused, waiting for more."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from tests.broker_process import BrokerProcess
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.face import Record
from tests.conformance.topics import new_topic

RECORDS = [
    Record(0, b"key-1", b"value-1", (("trace", b"abc"), ("trace", b"def"))),
    Record(0, b"key-2", None),
    Record(0, None, b"value-3", (), 1_700_000_000_003),
    Record(0, b"", b"", (("empty", b""),)),
]


def batches_of(log: bytes) -> list[bytes]:
    """The batches of a segment file, cut by their length fields."""
    batches = []
    position = 0
    while position < len(log):
        size = 12 + int.from_bytes(log[position + 8 : position + 12], "big")
        batches.append(log[position : position + size])
        position += size
    return batches


def segment_of(broker: BrokerProcess, topic: str) -> bytes:
    return Path(broker.data_dir, f"{topic}-0", "00000000000000000000.log").read_bytes()


@pytest.mark.alone("its files are read")
def test_the_segment_file_holds_the_records_for_an_independent_codec(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    ConfluentClient(broker).produce(topic, RECORDS, codec="gzip")
    log = segment_of(broker, topic)
    found = []
    for batch in batches_of(log):
        decoded = DefaultRecordBatch(bytearray(batch))
        assert decoded.validate_crc()
        found += [Record(0, r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in decoded]
    assert found == [record._replace(offset=at) for at, record in enumerate(RECORDS)]


@pytest.mark.proves(client="confluent-kafka", feature="too large a record is refused")
def test_a_record_larger_than_the_topic_allows_is_refused_and_the_next_one_is_stored(broker: BrokerProcess) -> None:
    topic = new_topic(broker, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    outcomes: list[str] = []

    def delivered(error: object, _message: object) -> None:
        outcomes.append("stored" if error is None else error.name())  # type: ignore[attr-defined]

    producer.produce(topic, value=b"x" * 5000, on_delivery=delivered)
    producer.flush(60)
    producer.produce(topic, value=b"small", on_delivery=delivered)
    producer.flush(60)
    assert outcomes == ["MSG_SIZE_TOO_LARGE", "stored"]


@pytest.mark.proves(client="confluent-kafka", feature="long polling")
def test_a_consumer_waits_for_records_that_come_later(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "fetch.wait.max.ms": 10_000, "fetch.min.bytes": 1}
    )
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert consumer.poll(0.2) is None
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value=b"late")
    producer.flush(60)
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"late"
    consumer.close()


@pytest.mark.proves(client="confluent-kafka", feature="offset reset")
def test_an_offset_out_of_range_is_reset_as_the_consumer_asks(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value=b"only")
    producer.flush(60)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([ConfluentTopicPartition(topic, 0, 1_000)])
    message = consumer.poll(60)
    assert message is not None
    assert (message.offset(), message.value()) == (0, b"only")
    consumer.close()
