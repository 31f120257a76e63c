"""What survives: a clean stop, a kill, a kill under load."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

NewBroker = Callable[..., BrokerProcess]


def create(broker: BrokerProcess, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config={"segment.bytes": "1048576"})]).values():
        future.result(60)


def values_of(broker: BrokerProcess, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    while len(values) < end:
        message = consumer.poll(60)
        assert message is not None, f"only {len(values)} of {end} records came"
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    return values


def test_topics_records_and_the_cluster_id_survive_a_clean_restart(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    create(broker, "orders", partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(5000):
        producer.produce("orders", value=b"%d" % number * 100, partition=0)
    assert producer.flush(60) == 0
    cluster_id = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).cluster_id
    assert broker.stop() == 0

    broker.start()
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60)
    assert metadata.cluster_id == cluster_id
    assert len(metadata.topics["orders"].partitions) == 3
    assert values_of(broker, "orders") == [b"%d" % number * 100 for number in range(5000)]


def test_nothing_acknowledged_is_lost_repeated_or_reordered_when_the_broker_is_killed_under_load(
    new_broker: NewBroker,
) -> None:
    broker = new_broker().start()
    create(broker, "orders")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1, "retry.backoff.ms": 20}
    )
    acknowledged: list[int] = []

    def delivered(error: object, message: object) -> None:
        assert error is None
        acknowledged.append(int(message.value()))  # type: ignore[attr-defined]

    sent = 0
    for _ in range(5):
        goal = len(acknowledged) + 2000
        while len(acknowledged) < goal:
            producer.produce("orders", value=b"%d" % sent, partition=0, on_delivery=delivered)
            sent += 1
            producer.poll(0)
            while sent - len(acknowledged) > 5000 and len(acknowledged) < goal:
                producer.poll(0.1)
        broker.kill()
        broker.start()
    assert producer.flush(60) == 0
    assert acknowledged == list(range(sent))
    assert values_of(broker, "orders") == [b"%d" % number for number in range(sent)]


def test_a_group_goes_on_from_its_commit_after_a_kill(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    create(broker, "orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(100):
        producer.produce("orders", value=b"%d" % number, partition=0)
    producer.flush(60)
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 20_000,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    for _ in range(40):
        message = consumer.poll(60)
        assert message is not None
    consumer.commit(asynchronous=False)
    broker.kill()

    broker.start()
    # It finds its coordinator again, and can leave the group; where it does not, the next one waits for its session.
    [committed] = consumer.committed([TopicPartition("orders", 0)], timeout=60)
    assert committed.offset == 40
    consumer.close()
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    message = consumer.poll(180)
    assert message is not None
    assert message.value() == b"40"
    consumer.close()


def test_a_log_that_lost_its_topic_id_is_kept(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    create(broker, "orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", value=b"1")
    assert producer.flush(60) == 0
    broker.kill()
    (broker.data_dir / "orders-0" / "partition.metadata").write_bytes(b"")

    broker.start()
    assert values_of(broker, "orders") == [b"1"]
