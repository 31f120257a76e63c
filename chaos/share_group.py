"""Faults of those who lead for a share group (KIP-932): one broker, and three.

What is acknowledged to a producer is delivered; what a member was told is done is delivered to nobody after that; a
delivery count is never above the limit of the group, and not lower than one that was stored with a release.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from chaos import broker_network
from chaos.cluster_run import plan_faults
from chaos.network_cluster import NetworkCluster
from chaos.queue_chapter import (
    BROKER_SETTINGS,
    FAULTS,
    FAULTS_ALONE,
    REPLICAS,
    REPLICATED,
    Queue,
    QueueReport,
    QueueRound,
    run_chapter,
)
from chaos.share_work import DELIVERIES_MAX, JOBS, LOCK_MS, PARTITIONS, GroupAtWork
from ottla.client import Admin, ClientOptions, ConfigResource, NewTopic
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from tests.cluster import Cluster

ROUNDS_PER_CHAPTER = 25
CUT = "cut"
GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.record.lock.duration.ms": str(LOCK_MS),
}


def run_shares(
    root: Path,
    rounds: int,
    seed: int,
    on_round: Callable[[int, QueueRound], None],
    environment: Mapping[str, str] | None = None,
) -> QueueReport:
    """So many faults of one broker, and as many of three, in chapters with a cluster each. The environment is that of
    brokers.
    """
    rng, report = Random(seed), QueueReport("a share group", seed)
    report.left_out = broker_network.why_not() or ""
    some = [name for name in FAULTS if not report.left_out or not name.startswith(CUT)]
    for count, names in ((1, FAULTS_ALONE), (REPLICAS, some)):
        plan = plan_faults(rounds, names, rng)
        for first in range(0, rounds, ROUNDS_PER_CHAPTER):
            directory = root / f"shares-of-{count}-{first}"
            directory.mkdir()
            settings = {**BROKER_SETTINGS, **(REPLICATED if count > 1 else {})}
            can_be_cut = count > 1 and not report.left_out
            cluster = (NetworkCluster if can_be_cut else Cluster)(directory, count, settings)
            for broker in cluster.brokers.values():
                broker.environment = dict(environment or {})
            found = run_chapter(cluster, SHARED, plan[first : first + ROUNDS_PER_CHAPTER], rng, report, on_round)
            report.violations += [f"{directory.name}: {each}" for each in found]
            if not found:
                shutil.rmtree(directory)
    return report


def _start(cluster: Cluster, rng: Random) -> GroupAtWork:
    asyncio.run(_prepare(cluster))
    work = GroupAtWork(cluster.bootstrap, rng.randrange(1 << 30))
    work.start()
    return work


async def _prepare(cluster: Cluster) -> None:
    clients = ClientsCluster(ClientOptions.of(cluster.bootstrap), AsyncioIo())
    await clients.connect()
    admin = Admin(clients)
    await admin.create_topic(NewTopic(JOBS, PARTITIONS, cluster.count))
    await admin.alter_configs(ConfigResource.group(JOBS), GROUP_SETTINGS)
    clients.close()


SHARED = Queue(JOBS, JOBS, PARTITIONS, _start)
