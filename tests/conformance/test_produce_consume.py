"""What one client library writes, each of the others reads; and the files hold what an independent codec reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from tests.broker_process import BrokerProcess
from tests.conformance.topics import new_topic

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]], int]
"""Offset, key, value, headers, timestamp in milliseconds."""

RECORDS = [
    (b"key-1", b"value-1", [("trace", b"abc"), ("trace", b"def")], 1_700_000_000_001),
    (b"key-2", None, [], 1_700_000_000_002),
    (None, b"value-3", [], 1_700_000_000_003),
    (b"", b"", [("empty", b"")], 1_700_000_000_004),
    (b"key-5", bytes(range(256)) * 40, [], 1_700_000_000_005),
]
EXPECTED: list[Record] = [
    (offset, key, value, headers, timestamp) for offset, (key, value, headers, timestamp) in enumerate(RECORDS)
]


async def write_confluent(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    errors = []
    for key, value, headers, timestamp in RECORDS:
        producer.produce(
            topic,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            partition=0,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert errors == []


async def write_kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
    )
    futures = [
        producer.send(topic, key=key, value=value, headers=headers, timestamp_ms=timestamp, partition=0)
        for key, value, headers, timestamp in RECORDS
    ]
    producer.flush(20)
    assert [future.get(10).offset for future in futures] == [0, 1, 2, 3, 4]
    producer.close()


async def write_aiokafka(bootstrap: str, topic: str, codec: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=50,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(topic, key=key, value=value, headers=headers, timestamp_ms=timestamp, partition=0)
            for key, value, headers, timestamp in RECORDS
        ]
        assert [(await future).offset for future in futures] == [0, 1, 2, 3, 4]
    finally:
        await producer.stop()


async def read_confluent(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    records: list[Record] = []
    while len(records) < count:
        message = consumer.poll(20)
        assert message is not None, f"only {len(records)} of {count} records came"
        if message.error():
            raise KafkaException(message.error())
        headers = [(name, value) for name, value in message.headers() or []]
        records.append((message.offset(), message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    return records


async def read_kafka_python(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=20_000, enable_auto_commit=False)
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records: list[Record] = []
    for message in consumer:
        records.append((message.offset, message.key, message.value, list(message.headers), message.timestamp))
        if len(records) == count:
            break
    consumer.close()
    return records


async def read_aiokafka(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        records: list[Record] = []
        while len(records) < count:
            message = await consumer.getone()
            records.append((message.offset, message.key, message.value, list(message.headers), message.timestamp))
        return records
    finally:
        await consumer.stop()


WRITERS = {"confluent-kafka": write_confluent, "kafka-python": write_kafka_python, "aiokafka": write_aiokafka}
READERS = {"confluent-kafka": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}
CODECS_OF = {
    "confluent-kafka": ["none", "gzip", "snappy", "lz4", "zstd"],
    "kafka-python": ["none", "gzip"],
    "aiokafka": ["none", "gzip"],
}
"""The Python clients bring gzip; for other codecs they need packages that nobody here installs."""


@pytest.mark.parametrize(
    ("writer", "codec"),
    [
        pytest.param(writer, codec, marks=pytest.mark.proves(client=writer, feature=f"codec {codec}"))
        for writer, codecs in CODECS_OF.items()
        for codec in codecs
    ],
)
async def test_what_one_client_writes_the_others_read(broker: BrokerProcess, writer: str, codec: str) -> None:
    topic = new_topic(broker)
    await WRITERS[writer](broker.bootstrap, topic, codec)
    for reader, read in READERS.items():
        if codec in CODECS_OF[reader]:
            assert await read(broker.bootstrap, topic, len(RECORDS)) == EXPECTED, reader


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


async def test_the_segment_file_holds_the_records_for_an_independent_codec(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    await write_confluent(broker.bootstrap, topic, "gzip")
    log = segment_of(broker, topic)
    found = []
    for batch in batches_of(log):
        decoded = DefaultRecordBatch(bytearray(batch))
        assert decoded.validate_crc()
        found += [(r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in decoded]
    assert found == EXPECTED


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.proves(client="confluent-kafka", feature="acks 0, 1, all")
def test_each_kind_of_acknowledgement_stores_the_records(broker: BrokerProcess, acks: str) -> None:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
    for number in range(1000):
        producer.produce(topic, value=str(number), partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    consumer.assign([ConfluentTopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[int] = []
    while len(values) < 1000:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        values.append(int(message.value()))
    consumer.close()
    assert values == list(range(1000))


@pytest.mark.proves(client="confluent-kafka", feature="too large a record is refused")
def test_a_record_larger_than_the_topic_allows_is_refused_and_the_next_one_is_stored(broker: BrokerProcess) -> None:
    topic = new_topic(broker, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    outcomes: list[str] = []

    def delivered(error: object, _message: object) -> None:
        outcomes.append("stored" if error is None else error.name())  # type: ignore[attr-defined]

    producer.produce(topic, value=b"x" * 5000, on_delivery=delivered)
    producer.flush(20)
    producer.produce(topic, value=b"small", on_delivery=delivered)
    producer.flush(20)
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
    producer.flush(20)
    message = consumer.poll(5)
    assert message is not None
    assert message.value() == b"late"
    consumer.close()


@pytest.mark.proves(client="confluent-kafka", feature="offsets for times")
def test_offsets_are_found_by_time_and_at_both_ends(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    start = 1_700_000_000_000
    for number in range(100):
        producer.produce(topic, value=b"x", timestamp=start + number * 1000, partition=0)
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    partition = ConfluentTopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(partition, timeout=10) == (0, 100)

    def offset_at(timestamp: int) -> int:
        return consumer.offsets_for_times([ConfluentTopicPartition(topic, 0, timestamp)], timeout=10)[0].offset

    assert offset_at(start) == 0
    assert offset_at(start + 41_001) == 42
    assert offset_at(start + 99_000) == 99
    assert offset_at(start + 99_001) == -1
    consumer.close()


@pytest.mark.proves(client="confluent-kafka", feature="offset reset")
def test_an_offset_out_of_range_is_reset_as_the_consumer_asks(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value=b"only")
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([ConfluentTopicPartition(topic, 0, 1_000)])
    message = consumer.poll(20)
    assert message is not None
    assert (message.offset(), message.value()) == (0, b"only")
    consumer.close()
