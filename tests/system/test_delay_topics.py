"""Delay topics on a running broker: any producer's records come once, when they are due, whatever is killed."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from chaos.lost_tail import batch_starts
from ottla.cli.main import run as run_command
from ottla.native import build_batch
from tests.broker_process import BrokerProcess

Headers = list[tuple[str, bytes]]
TOGETHER = {"linger.ms": 50_000}
"""What is produced before a flush is one batch."""


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex[:8]}"


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    given = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, config=given)]).values():
        future.result(60)


def read(broker: BrokerProcess, topic: str, count: int, partitions: int = 1) -> list[tuple[bytes, Headers, int]]:
    """So many committed records, or what came within 120 s."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[tuple[bytes, Headers, int]] = []
    end = time.monotonic() + 120
    while len(found) < count and time.monotonic() < end:
        good = (each for each in consumer.consume(100, 0.2) if each.error() is None)
        found += [(each.value(), each.headers() or [], each.timestamp()[1]) for each in good]
    consumer.close()
    return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def at_ms(due_ms: int) -> Headers:
    return [("ottla-deliver-at", str(due_ms).encode())]


def in_ms(delay_ms: int) -> Headers:
    return at_ms(now_ms() + delay_ms)


def test_records_of_any_producer_come_when_they_are_due_and_those_of_aborted_transactions_never(
    broker: BrokerProcess, name: str
) -> None:
    create(broker, name)
    create(broker, f"{name}.later", ottla_deliver_to=name)
    # Both are in one batch, so that they come in the order of their times also where these are over when it is written.
    plain = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": "lz4", **TOGETHER}
    )
    begun_ms = now_ms()
    second = [*at_ms(begun_ms + 900), ("kept", b"yes")]
    plain.produce(f"{name}.later", b"second", headers=second, timestamp=begun_ms - 5_000)
    plain.produce(f"{name}.later", b"first", headers=[("ottla-delay", b"300")], timestamp=begun_ms)
    plain.flush(60)
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce(f"{name}.later", b"never", headers=in_ms(10))
    transactional.flush(60)
    transactional.abort_transaction(60)
    transactional.begin_transaction()
    transactional.produce(f"{name}.later", b"third", headers=in_ms(1_500))
    transactional.commit_transaction(60)
    found = read(broker, name, 3)
    assert [value for value, _, _ in found] == [b"first", b"second", b"third"]
    assert now_ms() >= begun_ms + 1_500
    assert found[1][1:] == ([("kept", b"yes")], begun_ms - 5_000), "headers that said when are gone, the time is kept"


def test_a_record_with_the_same_key_cancels_and_what_says_no_time_becomes_a_letter(
    broker: BrokerProcess, name: str
) -> None:
    create(broker, name)
    create(broker, f"{name}.later", ottla_deliver_to=name)
    # In one batch: what cancels is there before the record is due, or is read together with it.
    producer = Producer({"bootstrap.servers": broker.bootstrap, **TOGETHER})
    for key in (b"a", b"b"):
        producer.produce(f"{name}.later", key, key=key, headers=in_ms(700))
    producer.produce(f"{name}.later", b"", key=b"a", headers=[("ottla-cancel", b"")])
    producer.produce(f"{name}.later", b"bad", headers=[("ottla-deliver-at", b"tomorrow")])
    producer.produce(f"{name}.later", b"far", headers=[("ottla-delay", b"9999999999999")])
    producer.flush(60)
    letters = read(broker, f"dlq.{name}.later", 2)
    assert [value for value, _, _ in letters] == [b"bad", b"far"]
    said = dict(letters[0][1])
    assert said["__dlq.errors.topic"] == f"{name}.later".encode()
    assert said["__dlq.errors.offset"] == b"3"
    assert b"tomorrow" in said["__dlq.errors.message"]
    producer.produce(f"{name}.later", b"end", headers=in_ms(800))
    producer.flush(60)
    assert [value for value, _, _ in read(broker, name, 2)] == [b"b", b"end"]


def test_targets_that_cannot_be_are_refused_and_one_that_was_deleted_is_waited_for(
    broker: BrokerProcess, name: str
) -> None:
    with pytest.raises(KafkaException, match="create it first"):
        create(broker, f"{name}.later", ottla_deliver_to=name)
    with pytest.raises(KafkaException, match="cannot deliver to itself"):
        create(broker, name, ottla_deliver_to=name)
    create(broker, name)
    with pytest.raises(KafkaException, match="compaction would remove records that wait"):
        create(broker, f"{name}.later", ottla_deliver_to=name, cleanup_policy="compact")
    create(broker, f"{name}.later", ottla_deliver_to=name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    back = ConfigEntry("ottla.deliver.to", f"{name}.later", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[back])
    with pytest.raises(KafkaException, match="leads back to the topic"):
        next(iter(admin.incremental_alter_configs([resource]).values())).result(60)
    admin.delete_topics([name])[name].result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(f"{name}.later", b"kept", headers=in_ms(0))
    producer.flush(60)
    create(broker, name)
    assert [value for value, _, _ in read(broker, name, 1)] == [b"kept"]


def test_each_record_comes_once_and_not_early_however_often_the_broker_is_killed(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = new_broker().start()
    create(broker, name, 2, message_timestamp_type="LogAppendTime")
    create(broker, f"{name}.later", 2, ottla_deliver_to=name)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    begun_ms, count = now_ms(), 3_000
    for number in range(count):
        at = begun_ms + 200 + number * 7_919 % 4_000
        header: Headers = [("ottla-deliver-at", str(at).encode())]
        value = json.dumps([number, at]).encode()
        producer.produce(f"{name}.later", value, headers=header, partition=number % 2)
    for partition in range(2):  # the last of each partition: what comes twice is between
        producer.produce(f"{name}.later", b"[-1, 0]", headers=in_ms(6_000), partition=partition)
    assert producer.flush(60) == 0
    for part in range(1, 4):
        read(broker, name, part * count // 5, 2)  # some were moved, others are on their way
        broker.kill()
        broker.start()
    found = [(json.loads(value), appended_ms) for value, _, appended_ms in read(broker, name, count + 2, 2)]
    assert sorted(number for (number, _), _ in found) == [-1, -1, *range(count)]
    assert [each for each in found if each[1] < each[0][1]] == [], "none came early"


def test_what_waits_is_listed_and_cancelled_from_the_command_line(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, name)
    create(broker, f"{name}.later", ottla_deliver_to=name)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key in (b"one", b"two", b"one"):
        producer.produce(f"{name}.later", b"x", key=key, headers=in_ms(3_600_000))
    producer.flush(60)
    at = ["--bootstrap", broker.bootstrap]
    assert run_command(["delay", "list", *at, f"{name}.later", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["offset"], row["key"]) for row in rows] == [(0, "one"), (1, "two"), (2, "one")]
    assert run_command(["delay", "cancel", *at, f"{name}.later", "one"]) == 0
    assert "2 records" in capsys.readouterr().out
    assert run_command(["delay", "list", *at, f"{name}.later"]) == 0
    listed = capsys.readouterr().out
    assert "two" in listed
    assert "one" not in listed
    assert run_command(["delay", "cancel", *at, f"{name}.later", "three"]) == 4
    assert run_command(["delay", "list", *at, name]) == 1


def test_records_come_where_every_client_has_to_log_in_and_acls_are_kept(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path / "data",
        protocol="SASL_PLAINTEXT",
        settings={"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"},
        environment={"OTTLA_SCRAM_USERS": "SCRAM-SHA-512=[name=admin,password=root]"},
    ).start()
    try:
        client = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "root",
        }
        admin = AdminClient(client)
        for topic in (NewTopic("orders", 1), NewTopic("later", 1, config={"ottla.deliver.to": "orders"})):
            next(iter(admin.create_topics([topic]).values())).result(60)
        producer = Producer(client)
        producer.produce("later", b"due", headers=[("ottla-delay", b"10")])
        producer.flush(60)
        consumer = Consumer({**client, "group.id": "readers", "isolation.level": "read_committed"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(60)
        consumer.close()
        assert message is not None
        assert message.value() == b"due"
    finally:
        broker.stop()


def test_what_is_written_after_the_end_of_a_log_was_lost_comes_too(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = new_broker().start()
    create(broker, name)
    create(broker, f"{name}.later", ottla_deliver_to=name)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value, headers in ((b"waits", in_ms(3_600_000)), *((value, in_ms(0)) for value in (b"a", b"b", b"c"))):
        producer.produce(f"{name}.later", value, headers=headers)
        producer.flush(60)
    assert [value for value, _, _ in read(broker, name, 3)] == [b"a", b"b", b"c"]
    broker.kill()
    segment = broker.data_dir / f"{name}.later-0" / f"{0:020}.log"
    data = segment.read_bytes()
    kept, epoch = data[: batch_starts(data)[1]], struct.unpack_from(">i", data, 12)[0]
    for offset in range(1, 5):
        again = build_batch([(now_ms(), None, b"again %d" % offset, at_ms(now_ms() - 3_600_000))])
        kept += struct.pack(">q", offset) + again[8:12] + struct.pack(">i", epoch + 1) + again[16:]
    segment.write_bytes(kept)
    broker.start()
    values = [value for value, _, _ in read(broker, name, 7)]
    assert values == [b"a", b"b", b"c", b"again 1", b"again 2", b"again 3", b"again 4"]
