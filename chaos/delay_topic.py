"""Faults of those who lead for a delay topic (`ottla.deliver.to`): one broker, and three.

What was acknowledged comes once and not before its time; what was aborted, or cancelled a second before, never comes.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos import broker_network
from chaos.cluster_run import plan_faults
from chaos.delay_work import DELAYED, KINDS, TARGET, DelayProducer
from chaos.leader_faults import DEEDS, DEEDS_ALONE
from chaos.network_cluster import NetworkCluster
from chaos.queue_chapter import FAULTS_ALONE, QueueReport, QueueRound
from tests.cluster import Cluster
from workload.worker import PATIENCE_S

ROUNDS_PER_CHAPTER = 10
PARTITIONS = 2
LEADERS = {
    "records": DELAYED,
    "target": TARGET,
    "transactions": "__transaction_state",
    "progress": "__consumer_offsets",
}
FAULTS = tuple(f"{deed} of the leader of {of}" for deed in DEEDS for of in LEADERS)
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "6000",
}
LATE_MS = 1_000


def run_delays(
    root: Path,
    rounds: int,
    seed: int,
    on_round: Callable[[int, QueueRound], None],
    environment: Mapping[str, str] | None = None,
) -> QueueReport:
    """So many faults of one broker, and as many of three, in chapters. The environment is that of brokers."""
    rng, report = Random(seed), QueueReport("a delay topic", seed)
    report.left_out = broker_network.why_not() or ""
    some = [name for name in FAULTS if not report.left_out or not name.startswith("cut")]
    for count, names in ((1, FAULTS_ALONE), (3, some)):
        plan = plan_faults(rounds, names, rng)
        for first in range(0, rounds, ROUNDS_PER_CHAPTER):
            directory = root / f"delays-of-{count}-{first}"
            directory.mkdir()
            can_be_cut = count > 1 and not report.left_out
            settings = {**SETTINGS, **(REPLICATED if count > 1 else {})}
            cluster = (NetworkCluster if can_be_cut else Cluster)(directory, count, settings)
            for broker in cluster.brokers.values():
                broker.environment = dict(environment or {})
            found = _run_chapter(cluster, plan[first : first + ROUNDS_PER_CHAPTER], rng, report, on_round)
            report.violations += [f"{directory.name}: {each}" for each in found]
            if not found:
                shutil.rmtree(directory)
    return report


def _run_chapter(
    cluster: Cluster, faults: list[str], rng: Random, report: QueueReport, on_round: Callable[[int, QueueRound], None]
) -> list[str]:
    with cluster:
        cluster.wait_until_registered()
        cluster.create_topic(TARGET, PARTITIONS, cluster.count, message_timestamp_type="LogAppendTime")
        cluster.create_topic(DELAYED, PARTITIONS, cluster.count, ottla_deliver_to=TARGET)
        producers = [DelayProducer(kind, cluster.bootstrap, PARTITIONS, rng.randrange(1 << 30)) for kind in KINDS]
        reader = Reader(cluster.bootstrap)
        for each in producers:
            each.start()
        try:
            _wait_until_delivered(reader, producers)
            for fault in faults:
                begun = time.monotonic()
                _do(cluster, fault, rng)
                _wait_until_delivered(reader, producers)
                report.rounds.append(QueueRound(len(report.rounds), fault, time.monotonic() - begun))
                on_round(len(report.rounds) - 1, report.rounds[-1])
            for each in producers:
                each.is_sending = False
            for each in producers:
                each.stop()
            _wait_for(reader, {value for each in producers for value in each.acknowledged})
            while reader.read():
                pass
        except (TimeoutError, AssertionError, KafkaException) as error:
            return [str(error) or repr(error)]
        finally:
            reader.close()
            for each in producers:
                each.give_up()
        log = cluster.log
    crashes = [f"a broker's log: {line}" for line in log.splitlines() if "crashed" in line or "Traceback" in line]
    return [*_check(reader.found, producers, report), *crashes[:5]]


def _do(cluster: Cluster, fault: str, rng: Random) -> None:
    if fault in FAULTS_ALONE:
        DEEDS_ALONE[fault.removesuffix(" of the only broker")](cluster, list(cluster.brokers.values()), rng)
        return
    for topic in LEADERS.values():
        cluster.wait_until_in_sync(topic, cluster.count, 2 * PATIENCE_S)
    deed, _, of = fault.partition(" of the leader of ")
    DEEDS[deed](cluster, [cluster.leader(LEADERS[of])], rng)


class Reader:
    """Reads the target all the time, committed records only."""

    def __init__(self, bootstrap: str) -> None:
        self.found: list[tuple[str, int]] = []
        """Values, and when they were appended to the target."""
        self.values: set[str] = set()
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": "read_committed", "log_level": 0}
        )
        self._consumer.assign([TopicPartition(TARGET, partition, 0) for partition in range(PARTITIONS)])

    def read(self) -> bool:
        """What is there, or comes within a second; False if nothing does."""
        some = [each for each in self._consumer.consume(5_000, 1.0) if each.error() is None]
        for each in some:
            value = (each.value() or b"").decode()
            self.values.add(value)
            self.found.append((value, each.timestamp()[1]))
        return bool(some)

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


def _wait_until_delivered(reader: Reader, producers: list[DelayProducer]) -> None:
    """Until each has sent something anew, and all that was acknowledged by then has come."""
    before = [len(each.acknowledged) for each in producers]
    deadline = time.monotonic() + 3 * PATIENCE_S
    while any(len(each.acknowledged) <= count for each, count in zip(producers, before, strict=True)):
        if time.monotonic() > deadline:
            raise TimeoutError("a producer has nothing acknowledged")
        for each in producers:
            each.require_sound()
        reader.read()
    _wait_for(reader, {value for each in producers for value in list(each.acknowledged)})


def _wait_for(reader: Reader, values: set[str]) -> None:
    deadline = time.monotonic() + 3 * PATIENCE_S
    while missing := values - reader.values:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} records were acknowledged and have not come: {sorted(missing)[:3]}")
        reader.read()


def _check(found: list[tuple[str, int]], producers: list[DelayProducer], report: QueueReport) -> list[str]:
    counts: dict[str, int] = {}
    late = []
    wrong = []
    for value, appended_ms in found:
        counts[value] = counts.get(value, 0) + 1
        due = int(value.rpartition("@")[2])
        late.append(appended_ms - due)
        if appended_ms < due:
            wrong.append(f"{due - appended_ms} ms early: {value}")
    wrong += [f"came {count} times: {value}" for value, count in counts.items() if count > 1]
    for each in producers:
        wrong += [f"acknowledged and not there: {value}" for value in each.acknowledged if value not in counts]
        wrong += [f"aborted or cancelled and there: {value}" for value in each.never if value in counts]
    report.add(
        {
            "records": len(found),
            "more than a second late": sum(each > LATE_MS for each in late),
            "aborted or cancelled": sum(len(each.never) for each in producers),
        }
    )
    report.counts["late at most, ms"] = max([report.counts.get("late at most, ms", 0), *late])
    return wrong
