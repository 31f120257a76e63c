"""A share group whose leaders of records and of state are killed, paused, stopped and cut off (KIP-932).

round    members work . . . fault --> all replicas in sync --> what was sent by then is done
end      everything is done --> what members saw is checked against what the log holds

What is acknowledged to a producer is delivered; what a member was told is done is delivered to nobody after that; a
delivery count is never above the limit of the group, and not lower than one that was stored with a release. Half of the
chapters have one broker, half have three.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos import broker_network
from chaos.cluster_run import plan_faults
from chaos.leader_faults import DEEDS, DEEDS_ALONE, LEADERS, leaders
from chaos.network_cluster import NetworkCluster
from chaos.read_back import read_partition
from chaos.share_work import DELIVERIES_MAX, JOBS, LOCK_MS, PARTITIONS, GroupAtWork
from ottla.client import Admin, ClientOptions, ConfigResource, NewTopic
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from tests.cluster import Cluster
from workload.worker import PATIENCE_S, Worker

STATE_PARTITIONS = 3
REPLICAS = 3
LOOK_S = 0.2
ROUNDS_PER_CHAPTER = 25
CUT = "cut"
BROKER_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "group.share.min.record.lock.duration.ms": "1000",
}
REPLICATED = {
    "share.coordinator.state.topic.min.isr": "2",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "6000",
}
GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.record.lock.duration.ms": str(LOCK_MS),
}


@dataclass(slots=True)
class ShareRound:
    """One fault, and how long it took until all that was sent before its end was done."""

    number: int
    fault: str
    done_s: float


@dataclass(slots=True)
class ShareReport:
    """All rounds."""

    seed: int
    rounds: list[ShareRound] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: str = ""
    """Why nothing was cut off."""
    what: str = "a share group"

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        faults = {each.fault for each in self.rounds}
        slowest = {name: max(each.done_s for each in self.rounds if each.fault == name) for name in sorted(faults)}
        return {
            "seed": self.seed,
            "rounds": len(self.rounds),
            "faults": {name: sum(each.fault == name for each in self.rounds) for name in sorted(faults)},
            "seconds until done, at most": slowest,
            "counts": self.counts,
            "violations": self.violations,
        }

    def add(self, counts: Mapping[str, int]) -> None:
        """What was counted in a chapter."""
        self.counts = {name: self.counts.get(name, 0) + count for name, count in counts.items()}


FAULTS = tuple(f"{deed} of the leader of {of}" for deed in DEEDS for of in LEADERS)
FAULTS_ALONE = tuple(f"{deed} of the only broker" for deed in DEEDS_ALONE)


def run_shares(
    root: Path,
    rounds: int,
    seed: int,
    on_round: Callable[[int, ShareRound], None],
    environment: Mapping[str, str] | None = None,
) -> ShareReport:
    """So many faults of one broker, and as many of three, in chapters with a cluster each. The environment is that of
    brokers.
    """
    rng, report = Random(seed), ShareReport(seed)
    report.left_out = broker_network.why_not() or ""
    some = [name for name in FAULTS if not report.left_out or not name.startswith(CUT)]
    for count, names in ((1, FAULTS_ALONE), (REPLICAS, some)):
        plan = plan_faults(rounds, names, rng)
        for first in range(0, rounds, ROUNDS_PER_CHAPTER):
            directory = root / f"shares-of-{count}-{first}"
            directory.mkdir()
            cluster = new_cluster(directory, count, {**BROKER_SETTINGS, **(REPLICATED if count > 1 else {})}, report)
            for broker in cluster.brokers.values():
                broker.environment = dict(environment or {})
            found = run_chapter(cluster, plan[first : first + ROUNDS_PER_CHAPTER], rng, report, on_round)
            report.violations += [f"{directory.name}: {each}" for each in found]
            if not found:
                shutil.rmtree(directory)
    return report


def new_cluster(directory: Path, count: int, settings: dict[str, str], report: ShareReport) -> Cluster:
    """One whose brokers can be cut off, if there is more than one and this machine can."""
    if count == 1 or report.left_out:
        return Cluster(directory, count, settings)
    return NetworkCluster(directory, count, settings)


def do(cluster: Cluster, fault: str, rng: Random, group: str, topic: str, partition: int) -> None:
    """One fault, to its end."""
    if fault in FAULTS_ALONE:
        DEEDS_ALONE[fault.removesuffix(" of the only broker")](cluster, list(cluster.brokers.values()), rng)
        return
    deed, _, of = fault.partition(" of the leader of ")
    DEEDS[deed](cluster, leaders(cluster, group, topic, partition, STATE_PARTITIONS, of), rng)


def run_chapter(
    cluster: Cluster,
    faults: Sequence[str],
    rng: Random,
    report: ShareReport,
    on_round: Callable[[int, ShareRound], None],
) -> list[str]:
    """What was found to be wrong, by the members or in the brokers' logs."""
    with cluster:
        cluster.wait_until_registered()
        asyncio.run(_prepare(cluster))
        work = GroupAtWork(cluster.bootstrap, rng.randrange(1 << 30))
        work.start()
        stuck = ""
        try:
            _wait_until_done(work)
            for fault in faults:
                wait_until_in_sync(cluster, JOBS)
                begun = time.monotonic()
                do(cluster, fault, rng, JOBS, JOBS, rng.randrange(PARTITIONS))
                _wait_until_done(work)
                report.rounds.append(ShareRound(len(report.rounds), fault, time.monotonic() - begun))
                on_round(len(report.rounds) - 1, report.rounds[-1])
            wait_until_in_sync(cluster, JOBS)
            work.is_sending = False
            wait(work, lambda: not work.history.unfinished(_read(cluster)), "all that the log has is done")
        except (TimeoutError, AssertionError) as error:
            stuck = str(error)
        log = _read(cluster)
        work.stop()
    history, there = work.history, {value for records in log.values() for _, value in records}
    found = [stuck] if stuck else []
    found += history.check(log)
    found += [f"acknowledged, and not there: {value}" for value in sorted(work.acknowledged - there)]
    found += crashes(cluster)
    report.add(
        {
            "records": len(there),
            "deliveries": len(history.deliveries),
            "deliveries after the first": sum(each.count > 1 for each in history.deliveries),
            "settlements answered": sum(each.outcome.value == "ok" for each in history.settlements),
            "settlements of unknown outcome": sum(each.outcome.value == "unknown" for each in history.settlements),
            "settlements refused": sum(each.outcome.value == "fail" for each in history.settlements),
        }
    )
    return found


def crashes(cluster: Cluster) -> list[str]:
    """What the brokers' logs say of programs that failed."""
    words = ("crashed", "Traceback")
    return [f"a broker's log: {line}" for line in cluster.log.splitlines() if any(word in line for word in words)][:5]


def _read(cluster: Cluster) -> dict[tuple[str, int], list[tuple[int, str]]]:
    return {
        (JOBS, number): [
            (each.offset, (each.value or b"").decode()) for each in read_partition(cluster.bootstrap, JOBS, number)
        ]
        for number in range(PARTITIONS)
    }


async def _prepare(cluster: Cluster) -> None:
    clients = ClientsCluster(ClientOptions.of(cluster.bootstrap), AsyncioIo())
    await clients.connect()
    admin = Admin(clients)
    await admin.create_topic(NewTopic(JOBS, PARTITIONS, cluster.count))
    await admin.alter_configs(ConfigResource.group(JOBS), GROUP_SETTINGS)
    clients.close()


def wait_until_in_sync(cluster: Cluster, topic: str) -> None:
    """All replicas of a topic, and of those of the coordinators."""
    for name in (topic, SHARE_GROUP_STATE_TOPIC, "__consumer_offsets"):
        cluster.wait_until_in_sync(name, cluster.count, 2 * PATIENCE_S)


def _wait_until_done(work: GroupAtWork) -> None:
    """Until something was acknowledged anew, and all that is acknowledged by then is done."""
    before = len(work.acknowledged)
    wait(work, lambda: len(work.acknowledged) > before, "a record is acknowledged")
    sent = set(work.acknowledged)
    wait(work, lambda: sent <= work.done, "all records are done")


def wait(work: Worker, holds: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError after three minutes, and what the worker died of."""
    deadline = time.monotonic() + 3 * PATIENCE_S
    while not holds():
        work.require_sound()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {3 * PATIENCE_S} s until {what}")
        time.sleep(LOOK_S)
