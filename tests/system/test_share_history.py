"""What became of a record is told by whoever leads its partition, also after those who delivered it were killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ottla.client import ClientOptions, SyncProducer, SyncShareConsumer
from ottla.client.admin.record_history import RecordEvent, record_history
from ottla.client.errors import TopicNotFoundError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.model.topic_name import SHARE_GROUP_HISTORY_TOPIC
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.committed_records import committed_records
from tests.system import share_consumer_run as run
from tests.system.test_group_letters import command

JOBS = "jobs"
DELIVERED_AND_ACCEPTED = [("delivered", 1), ("accepted", 1)]


def prepare(bootstrap: str, *, replicas: int) -> None:
    asyncio.run(run.prepare(bootstrap, JOBS, replicas=replicas))
    command("config", "set", "--bootstrap", bootstrap, "--group", JOBS, "ottla.history.ms=600000")


def work(bootstrap: str, value: bytes) -> None:
    """One record is written, delivered and accepted."""
    with SyncProducer(bootstrap) as producer:
        producer.send(JOBS, value, partition=0)
    with SyncShareConsumer(bootstrap, JOBS) as consumer:
        consumer.subscribe([JOBS])

        def has_come() -> bool:
            return any(record.value == value for record in consumer.poll(timeout_ms=500))

        wait_until(has_come, "the record")
        consumer.commit()


def stored(bootstrap: str) -> bytes:
    """All that is in the topic of the history."""
    try:
        return b"".join(record.value() or b"" for record in committed_records(bootstrap, SHARE_GROUP_HISTORY_TOPIC))
    except TopicNotFoundError:
        return b""


def told(bootstrap: str, offset: int) -> list[tuple[str, int]]:
    async def ask() -> list[RecordEvent]:
        cluster = ClientsCluster(ClientOptions.of(bootstrap), AsyncioIo())
        try:
            await cluster.connect()
            return await record_history(cluster, [JOBS], TopicPartition(JOBS, 0), offset)
        finally:
            cluster.close()

    return [(event.what, event.deliveries) for event in asyncio.run(ask())]


def test_a_killed_broker_tells_what_it_had_stored(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    prepare(broker.bootstrap, replicas=1)
    work(broker.bootstrap, b"first")
    assert told(broker.bootstrap, 0) == DELIVERED_AND_ACCEPTED
    wait_until(lambda: b'"accepted"' in stored(broker.bootstrap), "the stored history")
    broker.kill()
    broker.start()
    wait_until(lambda: told(broker.bootstrap, 0) == DELIVERED_AND_ACCEPTED, "the history after the restart")
    work(broker.bootstrap, b"second")
    assert told(broker.bootstrap, 0) == told(broker.bootstrap, 1) == DELIVERED_AND_ACCEPTED
    assert told(broker.bootstrap, 2) == []


def test_a_stopped_broker_has_stored_the_last_moments(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    prepare(broker.bootstrap, replicas=1)
    work(broker.bootstrap, b"first")
    broker.stop()
    broker.start()
    wait_until(lambda: told(broker.bootstrap, 0) == DELIVERED_AND_ACCEPTED, "the history after the restart")


def test_the_next_leader_tells_what_the_killed_one_noted(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        prepare(cluster.bootstrap, replicas=3)
        work(cluster.bootstrap, b"first")
        wait_until(lambda: b'"accepted"' in stored(cluster.bootstrap), "the stored history")
        for topic in (JOBS, SHARE_GROUP_HISTORY_TOPIC):
            cluster.wait_until_in_sync(topic)
        cluster.leader(JOBS).kill()
        wait_until(lambda: told(cluster.bootstrap, 0) == DELIVERED_AND_ACCEPTED, "the history of the killed leader")
    assert "crashed" not in cluster.log
