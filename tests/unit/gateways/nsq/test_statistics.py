"""Statistics of many channels and clients."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.gateways.nsq.channel_reader import ReaderCounts
from ottla.gateways.nsq.channels import Standing
from ottla.gateways.nsq.statistics import ITEMS_PER_TURN, NsqStatistics

COUNT = ITEMS_PER_TURN * 25


class Connections(list[Any]):
    """Connections; counts how often all are looked at."""

    looks = 0

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()


def gateway(channels: list[str], connections: Connections) -> Any:
    """A gateway whose broker leads one topic with these channels, and waits for nothing."""

    async def standing(*_: Any) -> Standing:
        return Standing(1, 2, 3, 4)

    async def names(*_: Any) -> list[str]:
        return channels

    topic = SimpleNamespace(name="t", partitions=[SimpleNamespace(leader=1)])
    partition = SimpleNamespace(
        is_leader=True, topic_partition=("t", 0), high_watermark=9, log=SimpleNamespace(log_start_offset=0, size=5)
    )
    return SimpleNamespace(
        connections=connections,
        administration=SimpleNamespace(topics=lambda _: [("t", topic)], channels=names),
        channels=SimpleNamespace(standing=standing),
        counts_of=lambda *_: ReaderCounts(),
        broker=SimpleNamespace(
            config=SimpleNamespace(node_id=1),
            image=SimpleNamespace(config=lambda _: {}),
            replicas=SimpleNamespace(find=lambda *_: partition),
            delayed=SimpleNamespace(waiting_count=lambda _: 0),
        ),
    )


async def turns_of(statistics: NsqStatistics) -> tuple[int, list[dict[str, Any]]]:
    """How many turns of the event loop the statistics take, and what they are."""
    task = asyncio.create_task(statistics.topics(with_clients=False))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns, task.result()


async def test_others_get_on_while_many_channels_are_told_of() -> None:
    turns, [topic] = await turns_of(NsqStatistics(gateway([f"c{number}" for number in range(COUNT)], Connections())))
    assert turns >= COUNT // ITEMS_PER_TURN
    assert len(topic["channels"]) == COUNT
    assert (topic["channels"][7]["depth"], topic["channels"][7]["in_flight_count"]) == (1, 2)


@pytest.mark.parametrize("channel_count", [1, 100])
async def test_clients_are_looked_at_once_however_many_channels_there_are(channel_count: int) -> None:
    connections = Connections(SimpleNamespace(subscription=("t", "c0")) for _ in range(50))
    _, [topic] = await turns_of(NsqStatistics(gateway([f"c{number}" for number in range(channel_count)], connections)))
    assert connections.looks == 1
    assert topic["channels"][0]["client_count"] == 50
