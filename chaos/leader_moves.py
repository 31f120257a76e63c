"""Moves of leaders that somebody asked for: another replica becomes the preferred one, and is elected."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from ottla.client import ClientOptions
from ottla.client.admin.reassignments import ElectionType, alter_reassignments, elect_leaders
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.client.io.cluster_metadata import ClusterMetadata
from ottla.metadata.image.image import NO_LEADER
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from workload.worker import PATIENCE_S

LOOK_S = 0.05
"""Between two elections of leaders that were not elected."""


def move_leaders(cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """All that these brokers lead is led by others then, while all of them run. Raises AssertionError."""
    leaving = {number for number, each in cluster.brokers.items() if any(each is broker for broker in brokers)}
    assert asyncio.run(_move(cluster.bootstrap, leaving, rng)), f"brokers {leaving} lead nothing that can move"


def move_in_turn(cluster: Cluster, _brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """What each broker leads moves away from it, from one after the other: what moved first moves on or back."""
    for leaving in rng.sample(list(cluster.brokers), len(cluster.brokers)):
        asyncio.run(_move(cluster.bootstrap, {leaving}, rng))


def places_to_move(metadata: ClusterMetadata, leaving: set[int], rng: Random) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of what is led there, in an order in which another one in sync is the preferred leader, one that is
    not left itself if there is one. The last is the one that leads.
    """
    wanted: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in metadata.topics.items():
        for each in topic.partitions:
            others = [replica for replica in each.replicas if replica != each.leader]
            rng.shuffle(others)
            others.sort(key=lambda replica: (replica not in each.isr, replica in leaving))
            if each.leader in leaving and others and others[0] in each.isr:
                wanted[TopicPartition(name, each.partition)] = (*others, each.leader)
    return wanted


async def _move(bootstrap: str, leaving: set[int], rng: Random) -> int:
    """How many partitions were moved."""
    clients = ClientsCluster(ClientOptions.of(bootstrap), AsyncioIo())
    try:
        await clients.connect()
        await clients.refresh(None)
        wanted = places_to_move(clients.metadata, leaving, rng)
        if not wanted:
            return 0
        refused = {
            place: error for place, error in (await alter_reassignments(clients, wanted)).items() if error is not None
        }
        assert not refused, refused
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                await _elect(clients, {place: replicas[-1] for place, replicas in wanted.items()})
        except TimeoutError as error:
            await clients.refresh(None)
            led = {str(place): clients.metadata.leader(place) for place in wanted}
            raise TimeoutError(f"brokers {leaving} lead on after {2 * PATIENCE_S} s: {led}") from error
    finally:
        clients.close()
    return len(wanted)


async def _elect(clients: ClientsCluster, before: Mapping[TopicPartition, int]) -> None:
    """Until others lead: one that was just out of sync cannot be elected yet, and one may be elected by itself."""
    left = list(before)
    while left:
        await elect_leaders(clients, ElectionType.PREFERRED, left)
        await clients.refresh(None)
        leaders = {place: clients.metadata.leader(place) for place in left}
        left = [
            place for place, found in leaders.items() if found is None or found.leader in (before[place], NO_LEADER)
        ]
        if left:
            await asyncio.sleep(LOOK_S)
