"""Faults of those who lead for a delay topic (`ottla.deliver.to`): one broker, and three.

What was acknowledged comes once and not before its time; what was aborted, or cancelled a second before, never comes.
Schedules deliver each full minute once. In every second chapter brokers keep so little in memory that they write and
merge bucket files all the time. In chapters of their own the only broker loses the end of its log with each kill.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos import broker_network
from chaos.cluster_run import plan_faults
from chaos.delay_brokers import with_little_memory
from chaos.delay_lateness import WHILE_LED, Outage, lateness
from chaos.delay_work import DELAYED, KINDS, TARGET, DelayProducer, now_ms
from chaos.leader_faults import DEEDS, DEEDS_ALONE
from chaos.leader_moves import move_in_turn
from chaos.lost_tail import lose_tail
from chaos.network_cluster import NetworkCluster
from chaos.queue_chapter import FAULTS_ALONE, QueueReport, QueueRound, percentiles
from chaos.schedule_work import MINUTE_MS, TICKS, TICKS_LATER, Scheduler, Tick, wrong_ticks
from tests.cluster import Cluster
from workload.worker import PATIENCE_S

ROUNDS_PER_CHAPTER = 15
PARTITIONS = 2
LEADERS = {
    "records": DELAYED,
    "schedules": TICKS_LATER,
    "target": TARGET,
    "transactions": "__transaction_state",
    "progress": "__consumer_offsets",
}
IN_TURN = "moves away from each broker in turn"
FAULTS = (*(f"{deed} of the leader of {of}" for deed in DEEDS for of in LEADERS), IN_TURN)
LOST_TAIL = "kill -9 and the end of the log lost"
KINDS_WITHOUT_END = ("plain", "idempotent")
"""Who writes where the end of the log gets lost: a transaction whose end is lost would stay open for ever."""
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
    lost = max(1, rounds // 5)
    of_one = plan_faults(rounds - lost, FAULTS_ALONE, rng)
    chapters = [
        *((1, part, KINDS) for part in _parts(of_one)),
        *((1, part, KINDS_WITHOUT_END) for part in _parts([LOST_TAIL] * lost)),
        *((3, part, KINDS) for part in _parts(plan_faults(rounds, some, rng))),
    ]
    for number, (count, plan, kinds) in enumerate(chapters):
        directory = root / f"delays-{number}-of-{count}"
        directory.mkdir()
        can_be_cut = count > 1 and not report.left_out
        settings = {**SETTINGS, **(REPLICATED if count > 1 else {})}
        cluster = (NetworkCluster if can_be_cut else Cluster)(directory, count, settings)
        of_brokers = dict(environment or {})
        if number % 2 == 0 or kinds != KINDS:
            of_brokers = with_little_memory(directory, of_brokers)
        for broker in cluster.brokers.values():
            broker.environment = of_brokers
        found = run_delay_chapter(cluster, plan, kinds, rng, report, on_round)
        report.violations += [f"{directory.name}: {each}" for each in found]
        if not found:
            shutil.rmtree(directory)
    return report


def _parts(plan: list[str]) -> list[list[str]]:
    return [plan[first : first + ROUNDS_PER_CHAPTER] for first in range(0, len(plan), ROUNDS_PER_CHAPTER)]


def run_delay_chapter(
    cluster: Cluster,
    faults: list[str],
    kinds: Sequence[str],
    rng: Random,
    report: QueueReport,
    on_round: Callable[[int, QueueRound], None],
) -> list[str]:
    """What was found to be wrong, or in the brokers' logs. Producers are of these kinds."""
    outages: list[Outage] = []
    lost: set[str] = set()
    with cluster:
        cluster.wait_until_registered()
        cluster.create_topic(TARGET, PARTITIONS, cluster.count, message_timestamp_type="LogAppendTime")
        stamped = {"message_timestamp_type": "LogAppendTime", "ottla_deliver_to": TARGET}
        cluster.create_topic(DELAYED, PARTITIONS, cluster.count, **stamped)
        cluster.create_topic(TICKS, PARTITIONS, cluster.count)
        cluster.create_topic(TICKS_LATER, PARTITIONS, cluster.count, ottla_deliver_to=TICKS)
        scheduler = Scheduler(cluster.bootstrap, PARTITIONS)
        producers = [DelayProducer(kind, cluster.bootstrap, PARTITIONS, rng.randrange(1 << 30)) for kind in kinds]
        reader = Reader(cluster.bootstrap)
        for each in (*producers, scheduler):
            each.start()
        try:
            _wait_until_delivered(reader, producers, lost)
            for fault in faults:
                before = _leader_epochs(cluster)
                begun, begun_ms, seen = time.monotonic(), now_ms(), len(reader.found)
                if fault == LOST_TAIL:
                    lost |= lose_tail(cluster, DELAYED, PARTITIONS, rng)
                else:
                    _do(cluster, fault, rng)
                _wait_until_led(cluster)
                outages.append(Outage(begun_ms, now_ms(), fault.partition(" of ")[0]))
                _wait_until_delivered(reader, producers, lost)
                facts = {"led again after, ms": outages[-1].end_ms - begun_ms}
                for name, late in lateness(reader.found[seen:], _there(reader, producers), outages).items():
                    facts |= {f"late {name}, {which}, ms": each for which, each in percentiles(late).items()}
                facts["bucket files"] = len(list(cluster.directory.glob("**/delays/*.*")))
                after = _leader_epochs(cluster)
                moved = sum(after[place] > epoch for place, epoch in before.items()) if cluster.count > 1 else None
                done = QueueRound(len(report.rounds), fault, time.monotonic() - begun, facts, moved)
                report.rounds.append(done)
                on_round(len(report.rounds) - 1, report.rounds[-1])
            for each in producers:
                each.is_sending = False
            for each in producers:
                each.stop()
            _wait_for(reader, {value for each in producers for value in each.acknowledged} - lost)
            scheduler.is_sending = False
            scheduler.stop()
            at_work = {key for key in scheduler.begun if key not in {*scheduler.stopped, *scheduler.doubtful}}
            until_ms = now_ms()
            _wait_for_ticks(reader, at_work, until_ms)
            while reader.read():
                pass
        except (TimeoutError, AssertionError, KafkaException) as error:
            return [str(error) or repr(error)]
        finally:
            reader.close()
            for each in (*producers, scheduler):
                each.give_up()
        log = cluster.log
    crashes = [f"a broker's log: {line}" for line in log.splitlines() if "crashed" in line or "Traceback" in line]
    begun_ticks = {key: times for key, times in scheduler.begun.items() if key not in scheduler.doubtful}
    wrong = wrong_ticks(reader.ticks, begun_ticks, scheduler.stopped, [each[:2] for each in outages], until_ms)
    report.add({"schedules": len(scheduler.begun), "times of schedules": len(reader.ticks)})
    return [*_check(reader, producers, report, outages, lost), *wrong, *crashes[:5]]


def _do(cluster: Cluster, fault: str, rng: Random) -> None:
    if fault in FAULTS_ALONE:
        DEEDS_ALONE[fault.removesuffix(" of the only broker")](cluster, list(cluster.brokers.values()), rng)
        return
    for topic in LEADERS.values():
        cluster.wait_until_in_sync(topic, cluster.count, 2 * PATIENCE_S)
    if fault == IN_TURN:
        move_in_turn(cluster, [], rng)
        return
    deed, _, of = fault.partition(" of the leader of ")
    DEEDS[deed](cluster, [cluster.leader(LEADERS[of])], rng)


def _wait_until_led(cluster: Cluster) -> None:
    for topic in (*LEADERS.values(), TARGET):
        for partition in range(len(cluster.metadata_of(topic).topics[topic].partitions)):
            cluster.leader(topic, partition)


def _leader_epochs(cluster: Cluster) -> dict[tuple[str, int], int]:
    """Of the partitions of delay topics: one rises when another broker leads."""
    topics = cluster.metadata_of(DELAYED, TICKS_LATER).topics
    return {
        (name, each.partition): each.leader_epoch for name in (DELAYED, TICKS_LATER) for each in topics[name].partitions
    }


class Reader:
    """Reads the targets all the time, committed records only."""

    def __init__(self, bootstrap: str) -> None:
        self.found: list[tuple[str, int]] = []
        """Values, and when they were appended to the target."""
        self.values: set[str] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self.ticks: list[Tick] = []
        """Of schedules."""
        self.written: dict[str, set[tuple[int | None, int | None]]] = {}
        """Where each value lies in the delay topic: a producer that is not idempotent may have written it twice."""
        self.written_ms: dict[str, int] = {}
        """When each value was written there."""
        places = [(topic, partition) for topic in (TARGET, TICKS, DELAYED) for partition in range(PARTITIONS)]
        self._consumer.assign([TopicPartition(*place, 0) for place in places])

    def read(self) -> bool:
        """What is there, or comes within a second; False if nothing does."""
        some = [each for each in self._consumer.consume(5_000, 1.0) if each.error() is None]
        for each in some:
            value = (each.value() or b"").decode()
            if each.topic() == DELAYED:
                if any(name == "ottla-deliver-at" for name, _ in each.headers() or ()):
                    self.written.setdefault(value, set()).add((each.partition(), each.offset()))
                    self.written_ms.setdefault(value, each.timestamp()[1])
                continue
            if each.topic() == TICKS:
                self.ticks.append((value, each.timestamp()[1]))
                continue
            self.values.add(value)
            self.found.append((value, each.timestamp()[1]))
        return bool(some)

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


def _wait_until_delivered(reader: Reader, producers: list[DelayProducer], lost: set[str]) -> None:
    """Until each has sent something anew, and all that was acknowledged by then has come, but what got lost."""
    before = [len(each.acknowledged) for each in producers]
    deadline = time.monotonic() + 3 * PATIENCE_S
    while any(len(each.acknowledged) <= count for each, count in zip(producers, before, strict=True)):
        if time.monotonic() > deadline:
            raise TimeoutError("a producer has nothing acknowledged")
        for each in producers:
            each.require_sound()
        reader.read()
    _wait_for(reader, {value for each in producers for value in list(each.acknowledged)} - lost)


def _wait_for(reader: Reader, values: set[str]) -> None:
    deadline = time.monotonic() + 3 * PATIENCE_S
    while missing := values - reader.values:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} records were acknowledged and have not come: {sorted(missing)[:3]}")
        reader.read()


def _wait_for_ticks(reader: Reader, keys: set[str], after_ms: int) -> None:
    """Until each of these schedules has had a time that lies after."""
    deadline = time.monotonic() + MINUTE_MS / 1000 + 3 * PATIENCE_S
    while missing := keys - {key for key, at in reader.ticks if at > after_ms}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} schedules deliver nothing any more: {sorted(missing)[:3]}")
        reader.read()


def _there(reader: Reader, producers: list[DelayProducer]) -> dict[str, int]:
    """From when on values could be delivered, where that is known: when they were committed, or else written."""
    there = {value: at for value, at in reader.written_ms.items() if not value.startswith("transactional")}
    return there | {value: at for each in producers for value, at in each.committed_ms.copy().items()}


def _check(
    reader: Reader, producers: list[DelayProducer], report: QueueReport, outages: list[Outage], lost: set[str]
) -> list[str]:
    """What is wrong with what came; of what got `lost` with the end of a log nothing is known."""
    found = reader.found
    counts: dict[str, int] = {}
    wrong = []
    for value, appended_ms in found:
        counts[value] = counts.get(value, 0) + 1
        due = int(value.rpartition("@")[2])
        if appended_ms < due:
            wrong.append(f"{due - appended_ms} ms early: {value}")
    for value, count in counts.items():
        if count > max(1, len(reader.written.get(value, ()))) + (value in lost):
            wrong.append(f"came {count} times: {value}")
    for each in producers:
        wrong += [
            f"acknowledged and not there: {value}" for value in each.acknowledged if value not in lost | counts.keys()
        ]
        wrong += [f"aborted or cancelled and there: {value}" for value in each.never - lost if value in counts]
    late = lateness(found, _there(reader, producers), outages)
    for name, some in late.items():
        report.late_ms.setdefault(name, []).extend(some)
    report.add(
        {
            "records": len(found),
            "due while led": len(late[WHILE_LED]),
            "of them more than a second late": sum(each > LATE_MS for each in late[WHILE_LED]),
            "aborted or cancelled": sum(len(each.never) for each in producers),
            "lost with the end of a log": len(lost),
        }
    )
    return wrong
