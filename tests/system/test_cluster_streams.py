"""Kafka Streams with exactly_once_v2 counts every word once while each of three brokers is killed in turn."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.cluster import Cluster, wait_until
from tests.conformance.java.streams_application import StreamsApplication, compiled
from tests.conformance.needed_peers import needed_peer

pytestmark = pytest.mark.long

SETTINGS = {
    "default_replication_factor": "3",
    "min_insync_replicas": "2",
    "group_initial_rebalance_delay_ms": "0",
    "group_streams_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "3",
    "transaction_state_log_num_partitions": "3",
}
LINES, COUNTS = "lines", "counts"
PARTITIONS = 2
LINES_OF_A_PART = 60


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    with needed_peer():
        return compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = new_cluster(3, **SETTINGS).start()
    cluster.wait_until_registered()
    for topic in (LINES, COUNTS):
        cluster.create_topic(topic, PARTITIONS)
    return cluster


class Words:
    """An idempotent producer of lines, and how often each word was in them."""

    def __init__(self, cluster: Cluster) -> None:
        self.counted: Counter[str] = Counter()
        settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True}
        self._producer = Producer({**settings, "log_level": 2})
        self._failed: list[str] = []

    def send(self) -> None:
        """Some lines; those that are on their way go on beside the caller."""
        for number in range(LINES_OF_A_PART):
            words = ["word", f"w{number % 7}", f"w{number % 5}"]
            self.counted.update(words)
            self._producer.produce(LINES, " ".join(words), on_delivery=self._on_delivery)
            self._producer.poll(0)

    def settle(self) -> None:
        assert self._producer.flush(60) == 0
        assert self._failed == []

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def counts_of(cluster: Cluster, expected: Counter[str]) -> dict[str, list[int]]:
    """Every count of each word in its order, as it is committed, once all have come to what is expected."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(COUNTS, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found: defaultdict[str, list[int]] = defaultdict(list)

    def look() -> bool:
        for message in consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            found[message.key().decode()].append(struct.unpack(">q", message.value())[0])
        return all(word in found and found[word][-1] >= count for word, count in expected.items())

    try:
        wait_until(look, "the counts of all words", 120)
    finally:
        consumer.close()
    return dict(found)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_every_word_counts_once_while_each_broker_is_killed_in_turn(
    class_path: str, cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    words = Words(cluster)
    for application in application_of(class_path, cluster, tmp_path, protocol):
        application.wait_for("RUNNING")
        words.send()
        words.settle()
        counts_of(cluster, words.counted)
        made = [name for name in cluster.metadata_of(*topics_of(cluster)).topics if name not in (LINES, COUNTS)]
        assert len(made) >= 4, made  # a changelog, a repartition topic, those of groups and of transactions
        for broker in cluster.brokers.values():
            for topic in (LINES, COUNTS, *made):
                cluster.wait_until_in_sync(topic)
            words.send()
            broker.kill()
            words.send()
            words.settle()
            counts_of(cluster, words.counted)
            broker.start()
        words.send()
        words.settle()
        counts = counts_of(cluster, words.counted)
    # Nothing is cached: each time that a word comes is one record.
    assert counts == {word: list(range(1, count + 1)) for word, count in words.counted.items()}


def topics_of(cluster: Cluster) -> list[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "topics", "log_level": 2})
    try:
        return sorted(consumer.list_topics(timeout=60).topics)
    finally:
        consumer.close()


def application_of(class_path: str, cluster: Cluster, directory: Path, protocol: str) -> Iterator[StreamsApplication]:
    application = StreamsApplication(
        class_path,
        directory,
        cluster.bootstrap,
        "count",
        LINES,
        COUNTS,
        group_protocol=protocol,
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=100,
        statestore_cache_max_bytes=0,
    )
    try:
        yield application
        application.close()
    finally:
        application.kill()
