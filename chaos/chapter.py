"""A chapter: one broker under load, crashed again and again, then everything read and checked.

round    load . . . moment --> crash --> start at once --> both producers acknowledged again
                                 |-------- recovery time ---------|
end      producers decided, members at the end, all read back --> checker

Beside them a topic is copied in transactions, by processes that are killed as well, one is compacted all the time, and
partitions move between two data directories.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos import copier_chain, keyed_producer
from chaos.checker import check
from chaos.copier_chain import CopierChain, check_copies
from chaos.crash import Crash, start_and_die
from chaos.directory_moves import DirectoryMover
from chaos.final_state import read_final_state
from chaos.keyed_producer import KeyedProducer, check_compacted
from chaos.members import AiokafkaMember, ConfluentMember, GroupMember, wait_for_members
from chaos.moments import Moment, wait_for
from chaos.producers import AiokafkaProducer, ConfluentProducer
from chaos.read_back import read_partition
from chaos.recorder import Recorder
from chaos.topics import TopicMaker, create_load_topics
from ottla.simulation.anomaly import Violation
from ottla.simulation.history import Outcome
from tests.broker_process import BrokerProcess
from workload.worker import PATIENCE_S, Worker

TOPICS = {"load-confluent": 2, "load-aiokafka": 2}
PARTITIONS = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
TOPIC_CONFIG = {"segment.ms": "300", "segment.index.bytes": "1024", "index.interval.bytes": "512"}
BROKER_SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "250",
    "replica.high.watermark.checkpoint.interval.ms": "350",
    "log.flush.start.offset.checkpoint.interval.ms": "450",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "100",
}
COPIED_PER_TICK = 1
"""Records that go into the chain of copiers: they are to keep up between two crashes."""
BEGIN_ANEW_EVERY = 4
"""In so many rounds one member leaves and a new one begins at the committed offsets."""


@dataclass(slots=True)
class Round:
    """One crash: when, whether the moment came, and seconds from it to the next acknowledged write of each producer.

    Such a write is of a record the producer was given after the crash.
    """

    number: int
    moment: Moment
    came: bool
    ready_s: float
    """From the crash until the broker said that it is ready."""
    recovery_s: dict[str, float]


@dataclass(slots=True)
class ChapterResult:
    """What a chapter showed."""

    rounds: list[Round] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def directories_of(data_dir: Path) -> list[Path]:
    """The data directories of a chapter that is told to have its data there."""
    return [data_dir, data_dir.with_name(f"{data_dir.name}-beside")]


def run_chapter(
    data_dir: Path,
    log_dir: Path,
    crash: Crash,
    moments: list[Moment],
    rng: Random,
    on_round: Callable[[Round], None],
    settings: Mapping[str, str] = {},
) -> ChapterResult:
    """Crash a new broker at each of `moments` in turn and check everything. Raises when it does not come back.

    `settings` are what it has besides those of every chapter.
    """
    recorder, result = Recorder(), ChapterResult()
    data_dirs = directories_of(data_dir)
    directories = Path(",".join(map(str, data_dirs)))
    broker = BrokerProcess(directories, {**BROKER_SETTINGS, **settings}, log_dir=log_dir).start()
    try:
        create_load_topics(broker.bootstrap, TOPICS, TOPIC_CONFIG)
        create_load_topics(
            broker.bootstrap, dict.fromkeys(copier_chain.TOPICS, copier_chain.PARTITION_COUNT), TOPIC_CONFIG
        )
        create_load_topics(broker.bootstrap, {keyed_producer.TOPIC: 1}, {**TOPIC_CONFIG, **keyed_producer.CONFIG})
        producers: list[Worker] = [
            ConfluentProducer("confluent", broker.bootstrap, recorder, "load-confluent", TOPICS["load-confluent"]),
            AiokafkaProducer("aiokafka", broker.bootstrap, recorder, "load-aiokafka", TOPICS["load-aiokafka"]),
        ]
        copied, compacted = Recorder(), Recorder()
        of_chain = ConfluentProducer(
            "copied", broker.bootstrap, copied, copier_chain.SOURCE, copier_chain.PARTITION_COUNT
        )
        of_chain.records_per_tick = COPIED_PER_TICK
        keyed = KeyedProducer("keyed", broker.bootstrap, compacted, keyed_producer.TOPIC, 1)
        copiers = CopierChain(broker.bootstrap, log_dir / f"{data_dir.name}.copiers")
        mover = DirectoryMover(broker.bootstrap, Random(rng.random()))
        beside: list[Worker] = [of_chain, keyed, copiers, mover]
        members: list[GroupMember] = [
            ConfluentMember("group-confluent", broker.bootstrap, recorder, PARTITIONS),
            AiokafkaMember("group-aiokafka", broker.bootstrap, recorder, PARTITIONS),
        ]
        topics = TopicMaker(broker.bootstrap, recorder)
        names = [producer.name for producer in producers]
        recorder.mark()
        for worker in (*producers, *members, *beside):
            worker.start()
        recorder.wait_for_producers(names, PATIENCE_S)
        for number, moment in enumerate(moments):
            if number % BEGIN_ANEW_EVERY == 1:
                rng.choice(members).begin_anew()
            topics.create()
            copiers.kill_one(rng)
            came = wait_for(moment, data_dirs, rng, topics.create)
            crashed_at = recorder.mark()
            crash(broker)
            if moment is Moment.START:
                start_and_die(broker, crash, rng)
            broker.start()
            ready_s = recorder.now() - crashed_at
            first = recorder.wait_for_producers(names, PATIENCE_S)
            done = Round(number, moment, came, ready_s, {name: at - crashed_at for name, at in first.items()})
            result.rounds.append(done)
            on_round(done)
            for worker in (*producers, *members, *beside):
                worker.require_sound()
        topics.create()
        for worker in (*producers, of_chain, keyed, mover):
            worker.stop()
        topics.settle()
        final = read_final_state(broker.bootstrap, PARTITIONS)
        ends = {partition: len(records) for partition, records in final.records.items()}
        wait_for_members(members, ends)
        for member in members:
            member.stop()
        copies = list(check_copies(broker.bootstrap))
        copiers.stop()
        kept = read_partition(broker.bootstrap, keyed_producer.TOPIC, 0)
        result.violations = [
            *check(recorder.history, final),
            *copies,
            *check_compacted(compacted.history.sends, kept),
        ]
        history = recorder.history
        result.counts = {
            "records sent": len(history.sends),
            "records acknowledged": sum(send.outcome is Outcome.OK for send in history.sends),
            "records read back": sum(ends.values()),
            "records delivered to groups": sum(len(delivery.records) for delivery in history.deliveries),
            "commits acknowledged": sum(commit.outcome is Outcome.OK for commit in history.commits),
            "commits unknown": sum(commit.outcome is Outcome.UNKNOWN for commit in history.commits),
            "committed offsets asked for": len(history.committed_offsets),
            "lives of group members": len({(each.group, each.assigned_at) for each in history.deliveries}),
            "topics acknowledged": sum(topic.outcome is Outcome.OK for topic in history.topic_creations),
            "records copied in transactions": len(copied.history.sends),
            "lives of copiers": copiers.started_count,
            "records acknowledged for compaction": sum(send.outcome is Outcome.OK for send in compacted.history.sends),
            "records left by compaction": len(kept),
            "partitions that arrived in another directory": mover.moved_count,
            "segments": sum(1 for each in data_dirs for _ in each.glob("load-*/*.log")),
        }
    finally:
        broker.kill()
    return result
