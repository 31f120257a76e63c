"""Whole brokers in virtual time: three of them start, serve a client, and do it again in the same way."""

from pathlib import Path
from unittest.mock import patch

import pytest

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer
from ottla.runtime.rng import SeededRng
from ottla.simulation.whole.clock import HostClock
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.event_loop import SimulatedLoop, StuckError, settle
from ottla.simulation.whole.process import Process

RECORDS = 20


def _run(seed: int, directory: Path) -> str:
    """The hash of what happened while a producer wrote."""
    directory.mkdir()
    cluster = SimulatedCluster(seed, directory)
    loop, client, offsets = cluster.loop, Process("client", "10.0.1.1"), []

    async def produce() -> None:
        options, io = ClientOptions.of(cluster.bootstrap), AsyncioIo(HostClock(loop), SeededRng(seed))
        admin = Cluster(options, io)
        while not all(
            broker.image and len(broker.image.live_brokers()) == len(cluster.brokers) for broker in cluster.brokers
        ):
            await io.pause(100)
        await admin.connect()
        await Admin(admin).create_topic(NewTopic("orders", 1, 3))
        async with Producer(options, io=io) as producer:
            for number in range(RECORDS):
                metadata = await producer.send_and_wait("orders", b"%d" % number)
                offsets.append(metadata.offset)
                cluster.trace.tell(f"{number} at {metadata.offset}")
        loop.in_world(0, settle, done, None)

    done = loop.create_future()
    for broker in cluster.brokers:
        broker.start()
    loop.spawn(client, produce())
    loop.run_until_complete(done)
    for broker in cluster.brokers:
        loop.run_until_complete(broker.stop())
    loop.close()
    assert offsets == list(range(RECORDS))
    return cluster.trace.hash


def test_the_same_seed_gives_the_same_run_of_whole_brokers(tmp_path: Path) -> None:
    first, again, other = _run(1, tmp_path / "1"), _run(1, tmp_path / "2"), _run(2, tmp_path / "3")

    assert first == again != other


def test_what_never_comes_to_rest_is_ended() -> None:
    loop = SimulatedLoop(SeededRng(1))

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with (
        patch("ottla.simulation.whole.event_loop.TURNS_MAX", 100),
        pytest.raises(StuckError, match="nothing comes to rest: 101 turns"),
    ):
        loop.run_forever()
    loop.close()
