"""What administrators do about records and partitions: delete them, find offsets, elect leaders, look at the disk."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import RecordsToDelete
from confluent_kafka import Consumer, ElectionType, IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.admin import OffsetSpec as PythonOffsetSpec
from kafka.errors import OffsetOutOfRangeError, PolicyViolationError

from tests.broker_process import BrokerProcess
from tests.conformance.admins import WAIT_S, aio_client, only, refused
from tests.conformance.topics import new_topic

ALL = -1


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def fill(broker: BrokerProcess, topic: str, count: int, partition: int = 0, **options: object) -> int:
    """Produce that many records, each in a batch of its own and a second later; the time of the first, just passed."""
    begun_ms = time.time_ns() // 1_000_000 - count * 1_000
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0, **options})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=begun_ms + number * 1_000)
        assert producer.flush(WAIT_S) == 0
    return begun_ms


def read_all(broker: BrokerProcess, topic: str, end: int, partition: int = 0) -> list[int]:
    """The offsets a consumer reads from the beginning, wherever that is, to `end`."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    offsets: list[int] = []
    while not offsets or offsets[-1] < end - 1:
        message = consumer.poll(WAIT_S)
        assert message is not None, offsets
        assert message.error() is None, message.error()
        offsets.append(message.offset())
    consumer.close()
    return offsets


def watermarks(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
    consumer.close()
    return low, high


@pytest.mark.proves(client="confluent-kafka", feature="admin: delete records")
class TestConfluentDeletesRecords:
    def test_readers_begin_behind_what_was_deleted(self, confluent, broker):
        topic = new_topic(broker, 2)
        fill(broker, topic, 8)
        assert only(confluent.delete_records([TopicPartition(topic, 0, 5)])).low_watermark == 5
        assert watermarks(broker, topic) == (5, 8)
        assert read_all(broker, topic, 8) == [5, 6, 7]

    def test_everything_is_deleted_and_the_offsets_go_on(self, confluent, broker):
        topic = new_topic(broker)
        fill(broker, topic, 3)
        assert only(confluent.delete_records([TopicPartition(topic, 0, ALL)])).low_watermark == 3
        assert watermarks(broker, topic) == (3, 3)
        fill(broker, topic, 2)
        assert read_all(broker, topic, 5) == [3, 4]

    def test_partitions_are_answered_one_by_one(self, confluent, broker):
        topic = new_topic(broker, 2)
        fill(broker, topic, 3)
        futures = confluent.delete_records([TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 2)])
        outcomes = {each.partition: future for each, future in futures.items()}
        assert outcomes[0].result(WAIT_S).low_watermark == 2
        assert refused(lambda: outcomes[1].result(WAIT_S)).code() == KafkaError.OFFSET_OUT_OF_RANGE

    def test_a_compacted_topic_keeps_its_records(self, confluent, broker):
        topic = new_topic(broker, cleanup_policy="compact")
        error = refused(lambda: only(confluent.delete_records([TopicPartition(topic, 0, ALL)])))
        assert error.code() == KafkaError.POLICY_VIOLATION

    def test_a_consumer_without_a_reset_is_told_that_its_offset_is_gone(self, confluent, broker):
        topic = new_topic(broker)
        fill(broker, topic, 4)
        only(confluent.delete_records([TopicPartition(topic, 0, 3)]))
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "error"},
        )
        consumer.assign([TopicPartition(topic, 0, 1)])
        message = consumer.poll(WAIT_S)
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
        assert "out of range" in message.error().str().lower()
        consumer.close()


@pytest.mark.proves(client="kafka-python", feature="admin: delete records")
class TestKafkaPythonDeletesRecords:
    def test_each_partition_says_where_it_begins_now(self, python, broker):
        topic = new_topic(broker, 2)
        fill(broker, topic, 4)
        fill(broker, topic, 3, partition=1)
        wanted = {PythonTopicPartition(topic, 0): 2, PythonTopicPartition(topic, 1): ALL}
        deleted = python.delete_records(wanted)
        assert {each.partition: answer["low_watermark"] for each, answer in deleted.items()} == {0: 2, 1: 3}

    def test_what_is_not_there_cannot_be_deleted(self, python, broker):
        topic, compacted = new_topic(broker), new_topic(broker, cleanup_policy="compact")
        with pytest.raises(OffsetOutOfRangeError):
            python.delete_records({PythonTopicPartition(topic, 0): 1})
        with pytest.raises(PolicyViolationError):
            python.delete_records({PythonTopicPartition(compacted, 0): 0})


@pytest.mark.proves(client="aiokafka", feature="admin: delete records")
async def test_aiokafka_deletes_records_and_reads_what_is_left(broker):
    topic = new_topic(broker)
    fill(broker, topic, 6)
    partition = AioTopicPartition(topic, 0)
    async with aio_client(broker) as client:
        deleted = await client.delete_records({partition: RecordsToDelete(before_offset=4)})
    assert deleted == {partition: 4}
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        assert (await consumer.beginning_offsets([partition]))[partition] == 4
        assert [(await consumer.getone()).offset for _ in range(2)] == [4, 5]
    finally:
        await consumer.stop()


@pytest.mark.proves(client="confluent-kafka", feature="admin: delete records")
def test_what_was_deleted_stays_deleted_after_a_kill(new_broker):
    """The broker is killed right after each answer: its checkpoint of log starts would be due a minute later."""
    broker = new_broker().start()
    topic, end = new_topic(broker), 12
    fill(broker, topic, end)
    for offset in (3, 7, 11):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert only(admin.delete_records([TopicPartition(topic, 0, offset)])).low_watermark == offset
        broker.kill()
        broker.start()
        assert watermarks(broker, topic) == (offset, end)
        assert read_all(broker, topic, end) == list(range(offset, end))


@pytest.mark.proves(client="confluent-kafka", feature="admin: delete records")
def test_an_idempotent_producer_goes_on_after_its_records_were_deleted_and_the_broker_killed(new_broker):
    broker = new_broker().start()
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    offsets: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for round_number in range(3):
        for number in range(4):
            producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        assert producer.flush(WAIT_S) == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        end = 4 * (round_number + 1)
        assert only(admin.delete_records([TopicPartition(topic, 0, ALL)])).low_watermark == end
        broker.kill()
        broker.start()
        assert watermarks(broker, topic) == (end, end)
    assert offsets == list(range(12))


@pytest.mark.proves(client="confluent-kafka", feature="admin: delete records")
def test_a_group_whose_commit_was_deleted_begins_at_what_is_left(confluent, broker):
    topic = new_topic(broker)
    fill(broker, topic, 8)
    options = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    only(confluent.delete_records([TopicPartition(topic, 0, 6)]))
    consumer.subscribe([topic])
    messages = [consumer.poll(WAIT_S) for _ in range(2)]
    assert [message.offset() for message in messages if message is not None] == [6, 7]
    consumer.close()


@pytest.mark.proves(client="confluent-kafka", feature="admin: offsets")
def test_confluent_finds_offsets_by_every_kind_of_time(confluent, broker):
    topic = new_topic(broker)
    begun_ms = fill(broker, topic, 5)
    only(confluent.delete_records([TopicPartition(topic, 0, 1)]))
    wanted = {
        OffsetSpec.earliest(): 1,
        OffsetSpec.latest(): 5,
        OffsetSpec.max_timestamp(): 4,
        OffsetSpec.for_timestamp(begun_ms): 1,
        OffsetSpec.for_timestamp(begun_ms + 2_001): 3,
        OffsetSpec.for_timestamp(begun_ms + 3_600_000): -1,
    }
    for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
        for spec, offset in wanted.items():
            found = only(confluent.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=isolation))
            assert found.offset == offset, spec


@pytest.mark.proves(client="kafka-python", feature="admin: offsets")
def test_kafka_python_finds_offsets_by_every_kind_of_time(python, broker):
    topic = new_topic(broker)
    begun_ms = fill(broker, topic, 5)
    partition = PythonTopicPartition(topic, 0)
    wanted = {
        PythonOffsetSpec.EARLIEST: 0,
        PythonOffsetSpec.LATEST: 5,
        PythonOffsetSpec.MAX_TIMESTAMP: 4,
        PythonOffsetSpec.EARLIEST_LOCAL: 0,
        PythonOffsetSpec.LATEST_TIERED: -1,
        begun_ms + 1_001: 2,
    }
    for spec, offset in wanted.items():
        assert python.list_partition_offsets({partition: spec})[partition].offset == offset, spec


@pytest.mark.proves(client="confluent-kafka", feature="admin: elections")
def test_confluent_learns_that_the_only_broker_leads(confluent, broker):
    topic = new_topic(broker, 2)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition("not-there", 0)]
    for election in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        outcomes = confluent.elect_leaders(election, partitions).result(WAIT_S)
        codes = {(each.topic, each.partition): outcome.code() for each, outcome in outcomes.items()}
        assert codes == {
            (topic, 0): KafkaError.ELECTION_NOT_NEEDED,
            (topic, 7): KafkaError.UNKNOWN_TOPIC_OR_PART,
            ("not-there", 0): KafkaError.UNKNOWN_TOPIC_OR_PART,
        }
    assert confluent.elect_leaders(ElectionType.PREFERRED).result(WAIT_S) == {}


@pytest.mark.proves(client="kafka-python", feature="admin: elections")
def test_kafka_python_learns_that_the_only_broker_leads(python, broker):
    topic = new_topic(broker)
    results = python.elect_leaders(0, {topic: [0]}).to_dict()
    (elected,) = results["replica_election_results"]
    assert [(each["partition_id"], each["error_code"]) for each in elected["partition_result"]] == [(0, 84)]


@pytest.mark.proves(client="kafka-python", feature="admin: log directories")
@pytest.mark.alone("its files are compared")
def test_kafka_python_sees_how_large_logs_are(python, broker):
    topic = new_topic(broker, 2)
    fill(broker, topic, 4)
    (answer,) = python.describe_log_dirs({topic: [0, 1]})
    (directory,) = answer["log_dirs"]
    assert (answer["broker"], directory["error_code"], directory["log_dir"]) == (1, 0, str(broker.data_dir))
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    (found,) = directory["topics"]
    sizes = {each["partition_index"]: each["partition_size"] for each in found["partitions"]}
    assert sizes == {0: (broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size, 1: 0}


@pytest.mark.proves(client="kafka-python", feature="admin: producers")
def test_kafka_python_sees_idempotent_producers(python, broker):
    topic = new_topic(broker)
    fill(broker, topic, 3, **{"enable.idempotence": True})
    fill(broker, topic, 2)
    partition = PythonTopicPartition(topic, 0)
    (producer,) = python.describe_producers([partition])[partition].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 2)
    assert producer.current_transaction_start_offset == -1


@pytest.mark.proves(client="kafka-python", feature="admin: settings")
@pytest.mark.alone("brokers are listed")
def test_kafka_python_lists_resources_with_settings(python, broker):
    topic = new_topic(broker)
    assert topic in python.list_config_resources([ConfigResourceType.TOPIC])["topic"]
    everything = python.list_config_resources()
    assert everything["broker"] == ["1"]
    assert topic in everything["topic"]
