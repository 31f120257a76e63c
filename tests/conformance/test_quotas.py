"""Quotas as producers and consumers see them: told by their library, and muted until they may speak again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, ThrottleEvent, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.conformance.admins import fresh_name

BOUND = 100_000
"""Bytes a second; with two windows of a second so many may be moved at once."""

RECORDS, SIZE = 30, 10_000
"""All of them go in one request: however slow the machine is, that is more than may be moved at once."""

PATIENCE_S = 60


@pytest.fixture(scope="module")
def quota_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that measures over two windows, so that a quota is used up soon."""
    with BrokerProcess(tmp_path_factory.mktemp("quotas") / "data", {"quota.window.num": "2"}) as process:
        yield process


def ottla(broker: BrokerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "ottla.cli", *arguments, "-b", broker.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def new_topic(broker: BrokerProcess, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def producer_of(broker: BrokerProcess, name: str, events: list[ThrottleEvent]) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": name,
            "throttle_cb": events.append,
            "linger.ms": 60_000,  # until everything is there, and flushed
        }
    )


@pytest.mark.proves(client="confluent-kafka", feature="quotas")
def test_a_producer_is_told_and_every_record_arrives_once(quota_broker: BrokerProcess, tmp_path: Path) -> None:
    del tmp_path
    name = new_topic(quota_broker, fresh_name())
    ottla(quota_broker, "quota", "set", "--client-id", name, f"producer_byte_rate={BOUND}")
    events: list[ThrottleEvent] = []
    producer = producer_of(quota_broker, name, events)
    for number in range(RECORDS):
        producer.produce(name, value=b"%04d" % number + b"v" * (SIZE - 4))
    assert producer.flush(60) == 0
    deadline = time.monotonic() + PATIENCE_S
    while not events:
        assert time.monotonic() < deadline, "the producer is not told"
        producer.poll(0.1)
    assert events[0].throttle_time > 0
    ottla(quota_broker, "quota", "delete", "--client-id", name, "producer_byte_rate")
    assert [record[:4] for record in consumed(quota_broker, name, fresh_name())] == [
        b"%04d" % number for number in range(RECORDS)
    ]


@pytest.mark.proves(client="confluent-kafka", feature="quotas")
def test_a_consumer_under_a_quota_gets_every_record_in_order(quota_broker: BrokerProcess) -> None:
    name = new_topic(quota_broker, fresh_name())
    producer = producer_of(quota_broker, fresh_name(), [])
    for number in range(RECORDS):
        producer.produce(name, value=b"%04d" % number + b"v" * (SIZE - 4))
    assert producer.flush(60) == 0
    ottla(quota_broker, "quota", "set", "--client-id", name, f"consumer_byte_rate={BOUND}")
    throttled: list[int] = []
    values = consumed(quota_broker, name, name, throttled)
    assert [value[:4] for value in values] == [b"%04d" % number for number in range(RECORDS)]


def consumed(broker: BrokerProcess, topic: str, client_id: str, throttled: list[int] | None = None) -> list[bytes]:
    """All records of the topic; `throttled` collects the longest throttle times of the library's statistics, in which
    there must be one."""

    def statistics(text: str) -> None:
        if throttled is not None:
            brokers = json.loads(text)["brokers"].values()
            throttled.append(max((each["throttle"]["max"] for each in brokers), default=0))

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": "unused",
            "enable.auto.commit": False,
            "statistics.interval.ms": 100,
            "stats_cb": statistics,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    while len(values) < RECORDS:
        message = consumer.poll(60)
        assert message is not None, f"only {len(values)} records came"
        assert message.error() is None
        value = message.value()
        assert value is not None
        values.append(value)
    deadline = time.monotonic() + PATIENCE_S
    while throttled is not None and not any(throttled):
        assert time.monotonic() < deadline, "the consumer is not told"
        consumer.poll(0.1)
    consumer.close()
    return values
