"""Moves of leaders that somebody asked for: another replica becomes the preferred one, and is elected."""

import asyncio
from collections.abc import Sequence
from random import Random

from ottla.client import ClientOptions
from ottla.client.admin.reassignments import ElectionType, alter_reassignments, elect_leaders
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.client.io.cluster_metadata import ClusterMetadata
from ottla.model.topic_partition import TopicPartition
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster


def move_leaders(cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """All that these brokers lead is led by others then, while all of them run."""
    leaving = {number for number, each in cluster.brokers.items() if any(each is broker for broker in brokers)}
    asyncio.run(_move(cluster.bootstrap, leaving, rng))


def places_to_move(metadata: ClusterMetadata, leaving: set[int], rng: Random) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of what is led there, in an order in which another one is the preferred leader."""
    wanted: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in metadata.topics.items():
        for each in topic.partitions:
            if each.leader in leaving and len(each.isr) > 1:
                others = [replica for replica in each.replicas if replica != each.leader]
                rng.shuffle(others)
                wanted[TopicPartition(name, each.partition)] = (*others, each.leader)
    return wanted


async def _move(bootstrap: str, leaving: set[int], rng: Random) -> None:
    clients = ClientsCluster(ClientOptions.of(bootstrap), AsyncioIo())
    try:
        await clients.connect()
        await clients.refresh(None)
        wanted = places_to_move(clients.metadata, leaving, rng)
        assert wanted, f"brokers {leaving} lead nothing"
        refused = {
            place: error for place, error in (await alter_reassignments(clients, wanted)).items() if error is not None
        }
        assert not refused, refused
        await elect_leaders(clients, ElectionType.PREFERRED, wanted)
    finally:
        clients.close()
