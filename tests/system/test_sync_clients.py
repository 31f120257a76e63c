"""Blocking programs write and read in a group with `SyncProducer` and `SyncConsumer`; others read what they wrote."""

import threading
from collections import defaultdict
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as OtherConsumer

from ottla.client import ClientError, ConsumerOptions, OffsetReset, SyncConsumer, SyncProducer
from ottla.client.errors import InvalidOptionError
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess

WAIT_MS = 60_000


@pytest.fixture
def topic() -> str:
    return f"sync-{uuid4().hex[:8]}"


def group_options(group: str, **settings: object) -> ConsumerOptions:
    return ConsumerOptions(group_id=group, auto_offset_reset=OffsetReset.EARLIEST, **settings)  # type: ignore[arg-type]


def test_threads_share_a_producer_and_each_keeps_its_order(broker: BrokerProcess, topic: str) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        producer.send(topic, b"first", partition=0).result()

        def write(writer: int) -> None:
            for number in range(2_000):
                producer.send(topic, b"%d %d" % (writer, number), partition=0)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    other = OtherConsumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    other.subscribe([topic])
    values = [message.value() for message in other.consume(8_001, 60)]
    other.close()
    seen: dict[int, list[int]] = defaultdict(list)
    for value in values[1:]:
        writer, number = map(int, value.split())
        seen[writer].append(number)
    assert seen == {writer: list(range(2_000)) for writer in range(4)}


def test_a_group_goes_on_where_the_consumer_before_committed(broker: BrokerProcess, topic: str) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, key=b"k", headers=[("n", b"%d" % number)])
    with SyncConsumer(broker.bootstrap, group_options(topic)) as consumer:
        consumer.subscribe([topic])
        read = []
        for record in consumer:
            read.append((record.value, record.key, record.headers))
            if len(read) == 5:
                # The fifth record counts as read when the sixth is asked for.
                consumer.commit()
                break
    assert read == [(b"%d" % n, b"k", [("n", b"%d" % n)]) for n in range(5)]
    with SyncConsumer(broker.bootstrap, group_options(topic, auto_commit=False)) as consumer:
        consumer.subscribe([topic])
        rest = []
        while len(rest) < 5:
            rest += [record.value for record in consumer.poll(timeout_ms=WAIT_MS)]
        place = TopicPartition(topic, 0)
        assert (consumer.assignment(), consumer.committed([place])) == ([place], {place: 5})
    assert rest == [b"5", b"6", b"7", b"8", b"9"]


def test_partitions_can_be_assigned_and_sought(broker: BrokerProcess, topic: str) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number, partition=0)
    with SyncConsumer(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 2)
        found: list[bytes | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(timeout_ms=WAIT_MS)]
    assert found == [b"2", b"3"]


def test_a_record_that_is_refused_says_why_in_its_future_and_at_the_next_flush(
    broker: BrokerProcess, topic: str
) -> None:
    producer = SyncProducer(broker.bootstrap)
    refused = producer.send("no/such/name", b"value")
    taken = producer.send(topic, b"value")
    with pytest.raises(InvalidOptionError, match="Topic name is invalid"):
        producer.flush()
    with pytest.raises(InvalidOptionError, match="Topic name is invalid"):
        refused.result()
    assert taken.result().offset == 0
    producer.flush()
    producer.close()
    with pytest.raises(ClientError, match="closed"):
        producer.send(topic, b"value")


def test_a_value_that_is_not_bytes_is_refused_at_once(broker: BrokerProcess, topic: str) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        with pytest.raises(TypeError, match="value must be bytes or None, not str: encode it"):
            producer.send(topic, "value")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key must be bytes or None, not int"):
            producer.send(topic, b"value", key=7)  # type: ignore[arg-type]


def test_after_an_error_in_the_block_no_record_is_left_undecided(broker: BrokerProcess, topic: str) -> None:
    futures = []

    def stop_half_way() -> None:
        with SyncProducer(broker.bootstrap) as producer:
            futures.extend(producer.send(topic, b"%d" % number) for number in range(1_000))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop_half_way()
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("kind", [SyncProducer, SyncConsumer])
def test_a_broker_that_is_not_there_is_said_at_once_and_leaves_no_thread(
    kind: type[SyncProducer | SyncConsumer],
) -> None:
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
        kind("127.0.0.1:1")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla-")]


def test_a_consumer_that_is_closed_says_so(broker: BrokerProcess, topic: str) -> None:
    consumer = SyncConsumer(broker.bootstrap, group_options(topic))
    consumer.close()
    consumer.close()
    with pytest.raises(ClientError, match="the consumer is closed"):
        consumer.poll()
