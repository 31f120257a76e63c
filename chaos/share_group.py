"""A share group of a cluster whose leaders of records and of state are killed and paused, alone and together (KIP-932).

round    members work . . . fault --> all replicas in sync --> what was sent by then is done
end      everything is done --> what members saw is checked against what the log holds

What is acknowledged to a producer is delivered; what a member was told is done is delivered to nobody after that; a
delivery count is never above the limit of the group. After a kill the count of the last deliveries may be too low.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.cluster_faults import AWAY_S, PAUSE_S
from chaos.read_back import read_partition
from ottla.client import (
    AcknowledgementMode,
    AcknowledgeType,
    Admin,
    ClientOptions,
    ConfigResource,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareConsumerOptions,
)
from ottla.client.errors import ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.coordination.key_partition import partition_of_key
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.queues.share_state import ShareKey
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.share_witness import ShareWitness
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from workload.worker import PATIENCE_S, Worker

JOBS = "jobs"
PARTITIONS = 2
MEMBERS = 3
STATE_PARTITIONS = 3
DELIVERIES_MAX = 10
REQUEST_TIMEOUT_S = 5.0
POLL_S = 0.2
SEND_EVERY_S = 0.02
ROUNDS_PER_CHAPTER = 25
BROKER_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "share.coordinator.state.topic.min.isr": "2",
    "min.insync.replicas": "2",
    "group.share.min.record.lock.duration.ms": "1000",
}
GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.record.lock.duration.ms": "15000",
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


class GroupAtWork(Worker):
    """A producer and the members of the group, on an event loop of their own."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__("share group")
        self.history = ShareHistory(DELIVERIES_MAX)
        self.acknowledged: set[str] = set()
        self._options = ClientOptions.of(
            bootstrap,
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            api_timeout_ms=PATIENCE_S * 1000,
        )
        self._rng = Random(seed)
        self.is_sending = True

    @property
    def done(self) -> set[str]:
        """The values of records of which some member was told that they are done."""
        places = {each.place for each in list(self.history.settlements) if each.is_done}
        return {each.value for each in list(self.history.deliveries) if each.place in places}

    def run(self) -> None:
        """Until it is stopped."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            for number in range(MEMBERS):
                group.create_task(self._live(f"member-{number}"))

    async def _send(self) -> None:
        number = 0
        async with Producer(self._options) as producer:
            while not self.is_stopping and self.is_sending:
                value = str(number)
                number += 1
                delivery = await producer.send(JOBS, value.encode(), partition=number % PARTITIONS)
                delivery.add_done_callback(
                    lambda told, value=value: self.acknowledged.add(value) if told.error is None else None  # type: ignore[misc]
                )
                await asyncio.sleep(SEND_EVERY_S)

    async def _live(self, name: str) -> None:
        """One member after the other: some leave after a while, and those that fail are made anew."""
        life = 0
        while not self.is_stopping:
            life += 1
            witness = ShareWitness(f"{name}.{life}", self.history, time.monotonic)
            options = ShareConsumerOptions(JOBS, acknowledgement_mode=AcknowledgementMode.EXPLICIT, max_poll_records=20)
            consumer = ShareConsumer(self._options, options, on_acknowledged=witness.answered)
            try:
                await consumer.start()
                consumer.subscribe([JOBS])
                for _ in range(self._rng.randrange(200, 2_000)):
                    if self.is_stopping:
                        break
                    await self._turn(consumer, witness)
            except ClientError:
                await asyncio.sleep(POLL_S)
            finally:
                with suppress(ClientError):
                    await consumer.close()
                witness.goes()

    async def _turn(self, consumer: ShareConsumer, witness: ShareWitness) -> None:
        asked_s = time.monotonic() - REQUEST_TIMEOUT_S - 1.0
        records = await consumer.poll(timeout_ms=int(POLL_S * 1000))
        for record in records:
            witness.came(record, asked_s)
        for record in records:
            draw = self._rng.random()
            gives_back = draw > 0.95 and record.delivery_count < DELIVERIES_MAX // 2
            kind = AcknowledgeType.RELEASE if gives_back else AcknowledgeType.ACCEPT
            witness.says(record, kind)
            consumer.acknowledge(record, kind)
        if records:
            await consumer.commit()


def _leaders(cluster: Cluster, rng: Random, of: str) -> list[BrokerProcess]:
    partition = rng.randrange(PARTITIONS)
    topic_id = cluster.metadata_of(JOBS).topics[JOBS].topic_id
    of_state = partition_of_key(ShareKey(JOBS, topic_id, partition).text, STATE_PARTITIONS)
    found = []
    if of in ("records", "both"):
        found.append(cluster.leader(JOBS, partition))
    if of in ("state", "both"):
        found.append(cluster.leader(SHARE_GROUP_STATE_TOPIC, of_state))
    return list({id(each): each for each in found}.values())


def _kill(cluster: Cluster, rng: Random, of: str) -> None:
    brokers = _leaders(cluster, rng, of)
    for broker in brokers:
        broker.kill()
    time.sleep(rng.uniform(0, AWAY_S))
    for broker in brokers:
        broker.spawn()
    for broker in brokers:
        broker.wait_until_ready()


def _pause(cluster: Cluster, rng: Random, of: str) -> None:
    brokers = _leaders(cluster, rng, of)
    for broker in brokers:
        broker.pause()
    try:
        time.sleep(rng.uniform(1.0, PAUSE_S))
    finally:
        for broker in brokers:
            broker.resume()


FAULTS: dict[str, Callable[[Cluster, Random], None]] = {
    f"{what} of the leader of {of}": lambda cluster, rng, do=do, of=of: do(cluster, rng, of)  # type: ignore[misc]
    for what, do in (("kill -9", _kill), ("pause", _pause))
    for of in ("records", "state", "both")
}


def run_shares(root: Path, rounds: int, seed: int, on_round: Callable[[int, ShareRound], None]) -> ShareReport:
    """So many faults, in chapters with a cluster each."""
    rng, report = Random(seed), ShareReport(seed)
    names = [list(FAULTS)[number % len(FAULTS)] for number in range(rounds)]
    rng.shuffle(names)
    for first in range(0, rounds, ROUNDS_PER_CHAPTER):
        directory = root / f"shares-{first}"
        directory.mkdir()
        _chapter(directory, names[first : first + ROUNDS_PER_CHAPTER], rng, report, on_round)
    return report


def _chapter(
    directory: Path, names: list[str], rng: Random, report: ShareReport, on_round: Callable[[int, ShareRound], None]
) -> None:
    with Cluster(directory, settings=BROKER_SETTINGS) as cluster:
        cluster.wait_until_registered()
        asyncio.run(_prepare(cluster.bootstrap))
        work = GroupAtWork(cluster.bootstrap, rng.randrange(1 << 30))
        work.start()
        try:
            _wait_until_done(work)
            for name in names:
                _wait_until_in_sync(cluster)
                begun = time.monotonic()
                FAULTS[name](cluster, rng)
                _wait_until_done(work)
                done = ShareRound(len(report.rounds), name, time.monotonic() - begun)
                report.rounds.append(done)
                on_round(done.number, done)
            _wait_until_in_sync(cluster)
            work.is_sending = False
            log = {
                (JOBS, number): [
                    (each.offset, (each.value or b"").decode())
                    for each in read_partition(cluster.bootstrap, JOBS, number)
                ]
                for number in range(PARTITIONS)
            }
            _wait(work, lambda: not work.history.unfinished(log), "all that the log has is done")
            work.stop()
        finally:
            work.give_up()
    history, there = work.history, {value for records in log.values() for _, value in records}
    found = history.check(log)
    found += [f"acknowledged, and not there: {value}" for value in sorted(work.acknowledged - there)]
    if "crashed" in cluster.log:
        found.append("a part of a broker crashed")
    report.violations += [f"{directory.name}: {each}" for each in found]
    deliveries = {
        "records": len(there),
        "deliveries": len(history.deliveries),
        "deliveries after the first": sum(each.count > 1 for each in history.deliveries),
        "settlements answered": sum(each.outcome.value == "ok" for each in history.settlements),
        "settlements of unknown outcome": sum(each.outcome.value == "unknown" for each in history.settlements),
        "settlements refused": sum(each.outcome.value == "fail" for each in history.settlements),
    }
    report.counts = {name: report.counts.get(name, 0) + count for name, count in deliveries.items()}


async def _prepare(bootstrap: str) -> None:
    cluster = ClientsCluster(ClientOptions.of(bootstrap), AsyncioIo())
    await cluster.connect()
    admin = Admin(cluster)
    await admin.create_topic(NewTopic(JOBS, PARTITIONS, 3))
    await admin.alter_configs(ConfigResource.group(JOBS), GROUP_SETTINGS)
    cluster.close()


def _wait_until_in_sync(cluster: Cluster) -> None:
    for topic in (JOBS, SHARE_GROUP_STATE_TOPIC, "__consumer_offsets"):
        cluster.wait_until_in_sync(topic, 3, 2 * PATIENCE_S)


def _wait_until_done(work: GroupAtWork) -> None:
    """Until something was acknowledged anew, and all that is acknowledged by then is done."""
    before = len(work.acknowledged)
    _wait(work, lambda: len(work.acknowledged) > before, "a record is acknowledged")
    sent = set(work.acknowledged)
    _wait(work, lambda: sent <= work.done, "all records are done")


def _wait(work: GroupAtWork, holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 3 * PATIENCE_S
    while not holds():
        work.require_sound()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {3 * PATIENCE_S} s until {what}")
        time.sleep(POLL_S)
