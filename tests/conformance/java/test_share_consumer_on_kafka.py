"""Ottla's share consumer does on Apache Kafka what it does on Ottla: the same scenarios as the system tests."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import pytest

from benchmarks.beside_kafka.brokers import KAFKA, Broker
from tests.conformance.needed_peers import needed_peer
from tests.system import share_consumer_run as run
from tools import peers

pytestmark = pytest.mark.peer
LOCK_MS = 2_000
SETTINGS = {
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with needed_peer():
        class_path = os.pathsep.join(map(str, peers.kafka_jars()))
    broker = Broker(KAFKA, tmp_path_factory.mktemp("kafka") / "data", dict(SETTINGS), lambda: class_path)
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.parametrize(
    "scenario",
    [run.implicit_acknowledgement, run.explicit_acknowledgement, run.shared_work],
    ids=lambda each: each.__name__,
)
async def test_a_share_consumer_on_kafka(kafka: Broker, scenario: Callable[[str, str], Awaitable[None]]) -> None:
    await scenario(kafka.bootstrap, f"shared-{uuid4().hex[:8]}")


async def test_an_expired_lock_on_kafka(kafka: Broker) -> None:
    await run.expired_lock(kafka.bootstrap, f"shared-{uuid4().hex[:8]}", LOCK_MS)
