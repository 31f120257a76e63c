"""The files of a partition, written by one broker and put under a topic of the other: the same records are served."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benchmarks.beside_kafka.brokers import KAFKA, Broker
from tests.broker_process import BrokerProcess
from tests.conformance.needed_peers import needed_peer
from tools import peers

pytestmark = pytest.mark.peer
JOURNAL, LEDGER = "journal", "ledger"
KEYS, ROUNDS, VALUE_BYTES = 40, 12, 6_000
PATIENCE_S = 60.0
SEGMENT_BYTES = "1048576"
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "86400000"}
KEPT_AS_IT_IS = {JOURNAL: {}, LEDGER: {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}}
"""Settings with which a broker reads what the other wrote before it changes anything."""


@dataclass
class Peer:
    """Either broker, over its data directory."""

    start: Callable[[], object]
    stop: Callable[[], object]
    where: Callable[[], str]
    logs: Path

    @property
    def bootstrap(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.where(), "log_level": 0}

    def create(self, settings: dict[str, dict[str, str]]) -> None:
        topics = [
            NewTopic(name, 1, 1, config={"segment.bytes": SEGMENT_BYTES, **more}) for name, more in settings.items()
        ]
        admin = AdminClient(self.bootstrap)
        for future in admin.create_topics(topics).values():
            future.result(PATIENCE_S)

    def configure(self, topic: str, **settings: str) -> None:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = AdminClient(self.bootstrap)
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def until_compacted(self, topic: str, offset: int) -> None:
        """Until the cleaner has been there."""
        checkpoint, deadline = self.logs / "cleaner-offset-checkpoint", time.monotonic() + PATIENCE_S
        while True:
            rows = [line.split() for line in checkpoint.read_text().splitlines()[2:]] if checkpoint.exists() else []
            if any(row[0] == topic and int(row[2]) >= offset for row in rows):
                return
            assert time.monotonic() < deadline, f"the cleaner never came to {offset}: {rows}"
            time.sleep(0.05)


@pytest.fixture
def ottla(tmp_path: Path) -> Iterator[Peer]:
    process = BrokerProcess(tmp_path / "ottla", dict(SETTINGS))
    yield Peer(process.start, process.stop, lambda: process.bootstrap, process.data_dir)
    process.stop()


@pytest.fixture
def kafka_peer(tmp_path: Path) -> Iterator[Peer]:
    with needed_peer():
        class_path = os.pathsep.join(map(str, peers.kafka_jars()))
    broker = Broker(KAFKA, tmp_path / "kafka", dict(SETTINGS), lambda: class_path)
    yield Peer(broker.start, broker.stop, lambda: broker.bootstrap, broker.log_directory)
    broker.stop()


class Served(NamedTuple):
    """One record as a client has it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: tuple[int, int]
    headers: Any


def served(peer: Peer, topic: str, isolation: str) -> list[Served]:
    """All records from the beginning to the end."""
    consumer = Consumer(
        {
            **peer.bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Served] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline, f"the end of {topic} never came after {len(found)} records"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            offset = message.offset()
            assert offset is not None
            found.append(Served(offset, message.key(), message.value(), message.timestamp(), message.headers()))
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
        else:
            raise AssertionError(error)


def looked_up(peer: Peer, topic: str, records: list[Served]) -> list[int]:
    """The offsets that belong to the times of some of the records."""
    consumer = Consumer({**peer.bootstrap, "group.id": "nobody"})
    answers = []
    for record in records[:: max(1, len(records) // 20)]:
        (answer,) = consumer.offsets_for_times([TopicPartition(topic, 0, record.timestamp[1])], timeout=PATIENCE_S)
        assert answer.error is None
        answers.append(answer.offset)
    consumer.close()
    return answers


def end_of(peer: Peer, topic: str, at_least: int) -> int:
    """Where a topic ends, once the broker leads it: a high watermark that it does not know yet it takes for 0."""
    consumer = Consumer({**peer.bootstrap, "group.id": "nobody"})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        if end >= at_least:
            consumer.close()
            return int(end)
        assert time.monotonic() < deadline, f"{topic} ends at {end}, before {at_least}"


class Facts(NamedTuple):
    """What a broker serves of a topic."""

    end: int
    committed: list[Served]
    everything: list[Served]
    looked_up: list[int]


def facts(peer: Peer, topic: str, at_least: int = 0) -> Facts:
    end = end_of(peer, topic, at_least)
    everything = served(peer, topic, "read_uncommitted")
    return Facts(end, served(peer, topic, "read_committed"), everything, looked_up(peer, topic, everything))


def newest(records: list[Served]) -> dict[bytes | None, bytes | None]:
    """The last value of each key that has one."""
    values = {record.key: record.value for record in records}
    return {key: value for key, value in values.items() if value is not None}


def write(peer: Peer) -> None:
    """Transactions of two producers that overlap, of which some are aborted, and records that are part of none."""
    producers = [Producer({**peer.bootstrap, "transactional.id": f"writer-{number}"}) for number in range(2)]
    plain = Producer({**peer.bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for producer in producers:
        producer.init_transactions(PATIENCE_S)
    for number in range(ROUNDS):
        for producer in producers:
            producer.begin_transaction()
        for topic in (JOURNAL, LEDGER):
            for key in range(KEYS):
                value = None if number == ROUNDS - 2 and key % 8 == 0 else os.urandom(VALUE_BYTES // 2).hex()
                producers[key % 2].produce(topic, value, b"%d" % key, headers=[("round", b"%d" % number)])
            plain.produce(topic, b"plain %d" % number, b"plain %d" % (number % 3))
        plain.flush(PATIENCE_S)
        for at, producer in enumerate(producers):
            if (number + at) % 3:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.flush(PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)


def put_under(source: Peer, target: Peer, topic: str) -> None:
    """The files of a partition in place of those of the other broker, with the id of its topic."""
    mine, theirs = source.logs / f"{topic}-0", target.logs / f"{topic}-0"
    identity = (theirs / "partition.metadata").read_bytes()
    shutil.rmtree(theirs)
    shutil.copytree(mine, theirs)
    (theirs / "partition.metadata").write_bytes(identity)


def exchange(source: Peer, target: Peer, *, clean: bool) -> None:
    source.start()
    source.create({JOURNAL: {}, LEDGER: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}})
    write(source)
    source.until_compacted(LEDGER, KEYS)
    source.configure(LEDGER, min_compaction_lag_ms="86400000")
    source.stop()
    source.start()  # a pass that was going on has ended
    before = {topic: facts(source, topic) for topic in (JOURNAL, LEDGER)}
    source.stop()
    target.start()
    target.create(KEPT_AS_IT_IS)
    target.stop()
    for topic in before:
        put_under(source, target, topic)
    if not clean:
        (target.logs / ".kafka_cleanshutdown").unlink()
        (target.logs / "recovery-point-offset-checkpoint").unlink()  # it is of the files that were there
    target.start()
    for topic, was in before.items():
        assert facts(target, topic, was.end) == was, topic
    ledger = before[LEDGER]
    assert len(ledger.everything) < ledger.everything[-1].offset, "nothing was compacted"
    assert len(before[JOURNAL].committed) < len(before[JOURNAL].everything), "nothing was aborted"
    go_on(target, ledger)


def go_on(target: Peer, was: Facts) -> None:
    """The other broker writes behind, compacts what it was given, and each key has its last value still."""
    producer = Producer({**target.bootstrap, "enable.idempotence": False})  # a new cluster's ids are those of before
    for number in range(3 * KEYS):
        producer.produce(LEDGER, bytes(3 * VALUE_BYTES), b"later %d" % (number % 5))
    producer.flush(PATIENCE_S)
    target.configure(LEDGER, min_compaction_lag_ms="0", min_cleanable_dirty_ratio="0.01")
    target.until_compacted(LEDGER, was.everything[-1].offset)
    expected = newest(was.committed)
    expected.update({b"later %d" % number: bytes(3 * VALUE_BYTES) for number in range(5)})
    assert newest(served(target, LEDGER, "read_committed")) == expected


@pytest.mark.proves(client="Kafka's broker", feature="reads our partition files")
@pytest.mark.parametrize("clean", [True, False], ids=["as they are", "after a recovery"])
def test_kafka_serves_what_ottla_wrote(ottla: Peer, kafka_peer: Peer, clean: bool) -> None:
    exchange(ottla, kafka_peer, clean=clean)


@pytest.mark.proves(client="Kafka's broker", feature="its partition files are read")
@pytest.mark.parametrize("clean", [True, False], ids=["as they are", "after a recovery"])
def test_ottla_serves_what_kafka_wrote(ottla: Peer, kafka_peer: Peer, clean: bool) -> None:
    exchange(kafka_peer, ottla, clean=clean)
