"""A consumer of librdkafka that asks for metadata while the controller has heard no broker yet."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace

from ottla.broker.cluster import ClusterView
from ottla.metadata.image.image import MetadataImage
from ottla.server.server import Server
from tests.unit.server.whole_broker import broker

pytestmark = pytest.mark.slow

TIMEOUT_S = 60


def none_serves(image: MetadataImage) -> MetadataImage:
    """The same with all brokers fenced, as after a start of all at once."""
    return replace(image, brokers={each: replace(known, fenced=True) for each, known in image.brokers.items()})


async def produce(server: Server, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": str(server.address), "log_level": 2})
    producer.produce("orders", value, partition=0)
    assert await asyncio.to_thread(producer.flush, TIMEOUT_S) == 0


async def read(consumer: Consumer) -> bytes | None:
    message = await asyncio.to_thread(consumer.poll, TIMEOUT_S)
    return None if message is None or message.error() is not None else message.value()


async def test_it_goes_on_when_one_serves_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(tmp_path, {}) as server:
        cluster = server.services.broker.cluster
        answered = asyncio.Semaphore(0)
        current_image, nodes_to_ask = cluster._current_image, ClusterView.nodes_to_ask

        def counted(self: ClusterView, connection: Any) -> Any:
            answered.release()
            return nodes_to_ask(self, connection)

        monkeypatch.setattr(ClusterView, "nodes_to_ask", counted)
        await produce(server, b"before")
        consumer = Consumer(
            {
                "bootstrap.servers": str(server.address),
                "group.id": "readers",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 50,
                "metadata.recovery.strategy": "none",
                "log_level": 2,
            }
        )
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert await read(consumer) == b"before"
        cluster._current_image = lambda: none_serves(current_image())
        while not answered.locked():
            await answered.acquire()
        for _ in range(2):  # the first may have been made before
            await asyncio.wait_for(answered.acquire(), TIMEOUT_S)
        cluster._current_image = current_image
        for value in (b"after", b"later"):  # the first may come with what was asked for before
            await produce(server, value)
            assert await read(consumer) == value
        await asyncio.to_thread(consumer.close)
