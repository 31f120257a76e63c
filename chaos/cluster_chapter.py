"""A cluster under load, hit by one fault after the other, then everything read and checked.

round    load . . . fault --> brokers back --> every partition has all its replicas in sync --> written to again
end      producers decided, members at the end, all read back --> checker; replicas compared in the files

Beside the load a topic is copied in transactions by processes that are killed as well, one is compacted, and others are
made.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Self

from chaos import copier_chain, keyed_producer
from chaos.checker import check
from chaos.cluster_faults import COORDINATED
from chaos.copier_chain import CopierChain, check_copies
from chaos.equal_replicas import check_replicas
from chaos.final_state import read_final_state
from chaos.history import Send
from chaos.keyed_producer import KeyedProducer, check_compacted
from chaos.members import AiokafkaMember, ConfluentMember, GroupMember, wait_for_members
from chaos.producers import AiokafkaProducer, ConfluentProducer, LoadProducer
from chaos.read_back import read_partition
from chaos.recorder import Recorder
from chaos.topics import TopicMaker, create_load_topics
from ottla.simulation.anomaly import Violation
from ottla.simulation.history import Outcome, Partition
from tests.cluster import Cluster
from workload.worker import PATIENCE_S, Worker

TOPICS = {"load-confluent": 2, "load-aiokafka": 2}
COPIED_TOPICS = dict.fromkeys(copier_chain.TOPICS, copier_chain.PARTITION_COUNT)
ALL_TOPICS = (*TOPICS, *COPIED_TOPICS, keyed_producer.TOPIC, *COORDINATED)
"""All that is used; those of coordinators are there once somebody has needed them."""
REPLICAS = 3
TOPIC_CONFIG = {"min.insync.replicas": "2", "segment.bytes": "1048576", "index.interval.bytes": "512"}
BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "350",
}
BEGIN_ANEW_EVERY = 4
"""In so many rounds one member leaves and a new one begins at the committed offsets."""


@dataclass(slots=True)
class ClusterRound:
    """One fault: the longest time without an acknowledgement of a partition, and that until all are in sync again."""

    number: int
    fault: str
    silence_s: float
    in_sync_s: float


@dataclass(slots=True)
class ClusterResult:
    """What a chapter showed."""

    rounds: list[ClusterRound] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def run_cluster_chapter(
    cluster: Cluster,
    faults: Sequence[tuple[str, Callable[[], None]]],
    rng: Random,
    on_round: Callable[[ClusterRound], None],
    topics: Mapping[str, int] = TOPICS,
    wait_for_load: Callable[[], None] = lambda: None,
) -> ClusterResult:
    """Do each of `faults`, by name, to a new cluster, and check everything. Raises when it does not come back.

    `topics` are those of the two producers, with so many partitions; `wait_for_load` comes before the first fault.
    """
    with cluster, Load(cluster, topics) as load:
        wait_for_load()
        for number, (name, fault) in enumerate(faults):
            on_round(load.round(number, name, fault, rng))
        return load.settle()


class Load:
    """Who uses the cluster, and what came of it."""

    def __init__(self, cluster: Cluster, topics: Mapping[str, int]) -> None:
        self.cluster = cluster
        self.partitions = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
        self.result = ClusterResult()
        self.recorder, self.copied, self.compacted = Recorder(), Recorder(), Recorder()
        cluster.wait_until_registered()
        bootstrap = cluster.bootstrap
        create_load_topics(bootstrap, {**topics, **COPIED_TOPICS}, TOPIC_CONFIG, REPLICAS)
        compacted = {**TOPIC_CONFIG, **keyed_producer.CONFIG, "segment.ms": "300"}
        create_load_topics(bootstrap, {keyed_producer.TOPIC: 1}, compacted, REPLICAS)
        self.producers: list[LoadProducer] = [
            ConfluentProducer("confluent", bootstrap, self.recorder, "load-confluent", topics["load-confluent"]),
            AiokafkaProducer("aiokafka", bootstrap, self.recorder, "load-aiokafka", topics["load-aiokafka"]),
        ]
        self.of_chain = ConfluentProducer(
            "copied", bootstrap, self.copied, copier_chain.SOURCE, copier_chain.PARTITION_COUNT
        )
        self.keyed = KeyedProducer("keyed", bootstrap, self.compacted, keyed_producer.TOPIC, 1)
        for producer, count in {**dict.fromkeys(self.producers, 2), self.of_chain: 1, self.keyed: 1}.items():
            producer.records_per_tick = count
        for producer in self.producers:
            # So that many partitions have something in them before long, too.
            producer.value_bytes = 1000 * max(1, len(self.partitions) // 25)
        self.copiers = CopierChain(bootstrap, cluster.directory / "copiers.stderr")
        self.members: list[GroupMember] = [
            ConfluentMember("group-confluent", bootstrap, self.recorder, self.partitions),
            ConfluentMember("group-consumer", bootstrap, self.recorder, self.partitions, protocol="consumer"),
            AiokafkaMember("group-aiokafka", bootstrap, self.recorder, self.partitions),
        ]
        self.topics = TopicMaker(bootstrap, self.recorder, REPLICAS)
        self.workers: list[Worker] = [*self.producers, *self.members, self.of_chain, self.keyed, self.copiers]

    def __enter__(self) -> Self:
        self.recorder.mark()
        for worker in self.workers:
            worker.start()
        self._wait_for_writes()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.give_up()
        self.copiers.stop()

    def round(self, number: int, name: str, fault: Callable[[], None], rng: Random) -> ClusterRound:
        """One fault, from the moment before it until everything is well."""
        if number % BEGIN_ANEW_EVERY == 1:
            rng.choice(self.members).begin_anew()
        self.topics.create()
        self.copiers.kill_one(rng)
        begun = self.recorder.mark()
        fault()
        self.wait_until_in_sync()
        in_sync = self.recorder.now()
        self._wait_for_writes()
        for worker in self.workers:
            worker.require_sound()
        silence_s = longest_silence(self.recorder.history.sends, begun, self.recorder.now())
        done = ClusterRound(number, name, silence_s, in_sync - begun)
        self.result.rounds.append(done)
        return done

    def wait_until_in_sync(self) -> None:
        """Wait until all replicas of all topics of the load, and of the coordinators', are in sync."""
        for topic in ALL_TOPICS:
            self.cluster.wait_until_in_sync(topic, REPLICAS, 2 * PATIENCE_S)

    def settle(self) -> ClusterResult:
        """Let everybody come to their end, and check everything."""
        bootstrap, recorder, result = self.cluster.bootstrap, self.recorder, self.result
        for producer in (*self.producers, self.of_chain, self.keyed):
            producer.stop()
        self.topics.settle()
        final = read_final_state(bootstrap, self.partitions)
        ends = {partition: len(records) for partition, records in final.records.items()}
        wait_for_members(self.members, ends)
        for member in self.members:
            member.stop()
        copies = list(check_copies(bootstrap))
        self.copiers.stop()
        kept = read_partition(bootstrap, keyed_producer.TOPIC, 0)
        copied = [(topic, partition) for topic, count in COPIED_TOPICS.items() for partition in range(count)]
        directories = [broker.data_dir for broker in self.cluster.brokers.values()]
        result.violations = [
            *check(recorder.history, final),
            *copies,
            *check_compacted(self.compacted.history.sends, kept),
            *check_replicas(directories, [*self.partitions, *copied]),
        ]
        history = recorder.history
        result.counts = {
            "records sent": len(history.sends),
            "records acknowledged": sum(send.outcome is Outcome.OK for send in history.sends),
            "records read back": sum(ends.values()),
            "records delivered to groups": sum(len(delivery.records) for delivery in history.deliveries),
            "commits acknowledged": sum(commit.outcome is Outcome.OK for commit in history.commits),
            "topics acknowledged": sum(topic.outcome is Outcome.OK for topic in history.topic_creations),
            "records copied in transactions": len(self.copied.history.sends),
            "lives of copiers": self.copiers.started_count,
            "records acknowledged for compaction": sum(
                send.outcome is Outcome.OK for send in self.compacted.history.sends
            ),
        }
        return result

    def _wait_for_writes(self) -> None:
        self.recorder.wait_for_producers([producer.name for producer in self.producers], 2 * PATIENCE_S)


def longest_silence(sends: Iterable[Send], begun: float, ended: float) -> float:
    """The longest time between two acknowledgements of a partition, or from `begun` to the first, in seconds. Pure."""
    acknowledged: dict[Partition, list[float]] = {}
    for send in sends:
        if send.outcome is Outcome.OK and begun < send.completed_at < ended:
            acknowledged.setdefault(send.partition, [begun]).append(send.completed_at)
    gaps = (after - before for times in acknowledged.values() for before, after in pairwise(sorted(times)))
    return max(gaps, default=0.0)
