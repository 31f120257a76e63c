"""A queue whose leaders of records and of state are killed, paused, stopped and cut off.

round    members work . . . fault --> all replicas in sync --> what was sent by then is done
end      everything is done --> what members saw is checked against what the log holds
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Protocol

from confluent_kafka import KafkaException

from chaos.leader_faults import DEEDS, DEEDS_ALONE, LEADERS, leaders
from chaos.read_back import read_partition
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.simulation.history import Outcome
from ottla.simulation.share_history import ShareHistory
from tests.cluster import Cluster
from workload.worker import PATIENCE_S

STATE_PARTITIONS = 3
REPLICAS = 3
LOOK_S = 0.2
BROKER_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "group.share.min.record.lock.duration.ms": "1000",
}
REPLICATED = {
    "default.replication.factor": str(REPLICAS),
    "share.coordinator.state.topic.min.isr": "2",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "6000",
}
FAULTS = tuple(f"{deed} of the leader of {of}" for deed in DEEDS for of in LEADERS)
FAULTS_ALONE = tuple(f"{deed} of the only broker" for deed in DEEDS_ALONE)


class QueueWorker(Protocol):
    """Sends records and works on them, in threads of its own."""

    history: ShareHistory
    is_sending: bool
    """Set to False it sends no more."""

    @property
    def acknowledged(self) -> set[str]:
        """The values of which the producer was told that they are there."""
        ...

    @property
    def done(self) -> set[str]:
        """The values of records that nobody waits for any more."""
        ...

    def require_sound(self) -> None:
        """Raise what its threads died of, if they did."""

    def stop(self) -> None:
        """Begin nothing new and wait for the end."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Whose records and state things are done to, and who works on it. `start` makes it all and begins."""

    topic: str
    group: str
    partitions: int
    start: Callable[[Cluster, Random], QueueWorker]


@dataclass(slots=True)
class QueueRound:
    """One fault, and how long it took until all that was sent before its end was done."""

    number: int
    fault: str
    done_s: float
    facts: dict[str, int] = field(default_factory=dict)
    """What else was seen."""
    moved: int | None = None
    """How many partitions were led by another broker afterwards, or again by the same after another, where it was
    counted.
    """


@dataclass(slots=True)
class QueueReport:
    """All rounds."""

    what: str
    seed: int
    rounds: list[QueueRound] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: str = ""
    """Why nothing was cut off."""
    late_ms: dict[str, list[int]] = field(default_factory=dict)
    """How late each record came, by when it was due; of delay topics."""

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        faults = {each.fault for each in self.rounds}
        slowest = {name: max(each.done_s for each in self.rounds if each.fault == name) for name in sorted(faults)}
        return {
            "what": self.what,
            "seed": self.seed,
            "rounds": len(self.rounds),
            "faults": {name: sum(each.fault == name for each in self.rounds) for name in sorted(faults)},
            "seconds until done, at most": slowest,
            "each": [asdict(each) for each in self.rounds],
            "rounds by the leaders that moved": self.rounds_by_moves(),
            "late, ms": self.lateness(),
            "counts": self.counts,
            "violations": self.violations,
        }

    def rounds_by_moves(self) -> dict[str, int]:
        """In how many rounds so many leaders moved, of those in which it was counted."""
        counted = sorted(each.moved for each in self.rounds if each.moved is not None)
        return {str(moved): counted.count(moved) for moved in dict.fromkeys(counted)}

    def lateness(self) -> dict[str, dict[str, int]]:
        """How many records there were of each kind, and how late they came."""
        return {name: {"records": len(some), **percentiles(some)} for name, some in sorted(self.late_ms.items())}

    def add(self, counts: Mapping[str, int]) -> None:
        """What was counted in a chapter."""
        self.counts |= {name: self.counts.get(name, 0) + count for name, count in counts.items()}


def percentiles(values: Sequence[int]) -> dict[str, int]:
    """p50, p99 and the most; nothing of no values."""
    if not values:
        return {}
    some = sorted(values)
    return {"p50": some[len(some) // 2], "p99": some[len(some) * 99 // 100], "max": some[-1]}


class Progress:
    """Which values are done, as far as members were told; looks at what is new of a history only."""

    def __init__(self, history: ShareHistory) -> None:
        self._history = history
        self._seen = [0, 0]
        self._values: dict[object, str] = {}
        self.done: set[str] = set()

    def look(self) -> set[str]:
        """The values that are accepted or rejected, perhaps, or that were delivered for the last time."""
        history = self._history
        settlements = len(history.settlements)  # what they settle is among the deliveries of a moment later
        deliveries = len(history.deliveries)
        for delivery in history.deliveries[self._seen[1] : deliveries]:
            self._values[delivery.place] = delivery.value
            if delivery.count >= history.deliveries_max:
                self.done.add(delivery.value)
        for settlement in history.settlements[self._seen[0] : settlements]:
            if settlement.is_done and settlement.outcome is not Outcome.FAIL:
                self.done.add(self._values[settlement.place])
        self._seen = [settlements, deliveries]
        return self.done


def run_chapter(
    cluster: Cluster,
    queue: Queue,
    faults: Sequence[str],
    rng: Random,
    report: QueueReport,
    on_round: Callable[[int, QueueRound], None],
) -> list[str]:
    """What was found to be wrong, by the members or in the brokers' logs."""
    with cluster:
        cluster.wait_until_registered()
        work = queue.start(cluster, rng)
        stuck = ""
        try:
            _wait_until_done(work)
            for fault in faults:
                _wait_until_in_sync(cluster, queue.topic)
                begun = time.monotonic()
                _do(cluster, queue, fault, rng)
                _wait_until_done(work)
                report.rounds.append(QueueRound(len(report.rounds), fault, time.monotonic() - begun))
                on_round(len(report.rounds) - 1, report.rounds[-1])
            _wait_until_in_sync(cluster, queue.topic)
            work.is_sending = False
            _wait(work, lambda: not work.history.unfinished(_read(cluster, queue)), "all that the log has is done")
        except (TimeoutError, AssertionError) as error:
            stuck = str(error) or repr(error)
            work.is_sending = False  # or the end of the log is never read
        try:
            log = _read(cluster, queue)
            work.stop()
        except (TimeoutError, KafkaException) as error:
            return [*([stuck] if stuck else []), *_crashes(cluster), f"the log cannot be read: {error}"]
    history, there = work.history, {value for records in log.values() for _, value in records}
    found = [stuck] if stuck else []
    found += history.check(log)
    found += [f"acknowledged, and not there: {value}" for value in sorted(work.acknowledged - there)]
    found += _crashes(cluster)
    report.add(
        {
            "records": len(there),
            "deliveries": len(history.deliveries),
            "deliveries after the first": sum(each.count > 1 for each in history.deliveries),
            "settlements answered": sum(each.outcome is Outcome.OK for each in history.settlements),
            "settlements of unknown outcome": sum(each.outcome is Outcome.UNKNOWN for each in history.settlements),
            "settlements refused": sum(each.outcome is Outcome.FAIL for each in history.settlements),
        }
    )
    return found


def _do(cluster: Cluster, queue: Queue, fault: str, rng: Random) -> None:
    if fault in FAULTS_ALONE:
        DEEDS_ALONE[fault.removesuffix(" of the only broker")](cluster, list(cluster.brokers.values()), rng)
        return
    deed, _, of = fault.partition(" of the leader of ")
    partition = rng.randrange(queue.partitions)
    DEEDS[deed](cluster, leaders(cluster, queue.group, queue.topic, partition, STATE_PARTITIONS, of), rng)


def _crashes(cluster: Cluster) -> list[str]:
    words = ("crashed", "Traceback")
    return [f"a broker's log: {line}" for line in cluster.log.splitlines() if any(word in line for word in words)][:5]


def _read(cluster: Cluster, queue: Queue) -> dict[tuple[str, int], list[tuple[int, str]]]:
    return {
        (queue.topic, number): [
            (each.offset, (each.value or b"").decode())
            for each in read_partition(cluster.bootstrap, queue.topic, number)
        ]
        for number in range(queue.partitions)
    }


def _wait_until_in_sync(cluster: Cluster, topic: str) -> None:
    for name in (topic, SHARE_GROUP_STATE_TOPIC):
        cluster.wait_until_in_sync(name, cluster.count, 2 * PATIENCE_S)


def _wait_until_done(work: QueueWorker) -> None:
    """Until something was acknowledged anew, and all that is acknowledged by then is done."""
    before = len(work.acknowledged)
    _wait(work, lambda: len(work.acknowledged) > before, "a record is acknowledged")
    sent = set(work.acknowledged)
    _wait(work, lambda: sent <= work.done, "all records are done")


def _wait(work: QueueWorker, holds: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError after three minutes, and what the worker died of."""
    deadline = time.monotonic() + 3 * PATIENCE_S
    while not holds():
        work.require_sound()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {3 * PATIENCE_S} s until {what}")
        time.sleep(LOOK_S)
