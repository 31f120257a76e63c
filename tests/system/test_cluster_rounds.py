"""Brokers are killed, paused and killed together round after round, under idempotent and transactional producers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster import Cluster
from tests.system.test_cluster import Load, read_all
from tools.zookeeper import ZooKeeperServers

pytestmark = pytest.mark.long

NewCluster = Callable[..., Cluster]

SETTINGS = {"transaction_state_log_num_partitions": "3", "offsets_topic_num_partitions": "3"}
ROUNDS = 20


@pytest.fixture(params=["embedded", "zookeeper"])
def cluster(request: pytest.FixtureRequest, new_cluster: NewCluster, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers, their metadata in a file or in three ZooKeeper servers."""
    if request.param == "embedded":
        yield new_cluster(3, **SETTINGS).start()
        return
    with ZooKeeperServers(tmp_path / "zookeeper", 3) as servers:
        cluster = new_cluster(3, metadata=servers.location(), **SETTINGS).start()
        yield cluster
        cluster.kill()


class Transactions:
    """A transactional producer of numbered records; which of them were committed."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.committed: list[int] = []
        self._next = 0
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "rounds", "log.connection.close": False}
        )
        self._producer.init_transactions(60)

    def one(self, beside: Callable[[], object], count: int = 20) -> None:
        """A transaction in the middle of which something happens."""
        numbers = range(self._next, self._next + count)
        self._next += count
        self._producer.begin_transaction()
        for number in numbers:
            self._producer.produce(self.topic, b"%d" % number)
            self._producer.poll(0)
        beside()
        self._producer.commit_transaction(60)
        self.committed += numbers


def test_each_is_killed_again_and_again(cluster: Cluster) -> None:
    topics = [cluster.create_topic(name, 3, min_insync_replicas="2") for name in ("plain", "whole")]
    load, transactions = Load(cluster, "plain"), Transactions(cluster, "whole")
    chance = random.Random(7)
    for _ in range(ROUNDS):
        for topic in (*topics, "__transaction_state"):
            cluster.wait_until_in_sync(topic, timeout_s=60)
        victim = chance.choice([cluster.leader("plain"), cluster.controller, *cluster.brokers.values()])
        load.send(100)
        transactions.one(victim.kill)
        load.send(100)
        load.settle()
        victim.start()
    assert read_all(cluster, "plain", 3, len(load.acknowledged)) == Counter(load.acknowledged)
    assert read_all(cluster, "whole", 3, len(transactions.committed)) == Counter(transactions.committed)


def test_all_are_killed_together_again_and_again(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    load = Load(cluster, topic)
    for _ in range(ROUNDS // 2):
        load.send(100)
        load.settle()
        load.send(100)
        cluster.kill()
        cluster.start()
        load.settle()
    assert read_all(cluster, topic, 3, len(load.acknowledged)) == Counter(load.acknowledged)
    cluster.wait_until_in_sync(topic, timeout_s=60)


def test_a_leader_that_stands_still_for_twice_its_session_takes_nothing_back(new_cluster: NewCluster) -> None:
    cluster = new_cluster(3, broker_session_timeout_ms="3000", broker_heartbeat_interval_ms="500").start()
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    load = Load(cluster, topic)
    for _ in range(3):
        load.send(100)
        leader = cluster.leader(topic)
        leader.pause()
        load.send(100)
        load.settle()
        leader.resume()
        cluster.wait_until_in_sync(topic, timeout_s=60)
    assert read_all(cluster, topic, 3, len(load.acknowledged)) == Counter(load.acknowledged)
