"""Brokers whose metadata is in ZooKeeper, as processes of their own beside real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster import Cluster, wait_until
from tools.zookeeper import ZooKeeperServers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ZooKeeperServers]:
    with ZooKeeperServers(tmp_path / "zookeeper", 3) as three:
        yield three


@pytest.fixture
def cluster(servers: ZooKeeperServers, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers whose sessions outlast the test unless they are ended."""
    (tmp_path / "brokers").mkdir()
    settings = {"broker.session.timeout.ms": "55000"}
    with Cluster(tmp_path / "brokers", 3, settings, metadata=servers.location()) as three:
        three.wait_until_registered()
        yield three


def produce(cluster: Cluster, topic: str, value: str) -> None:
    """Have a record acknowledged by all in-sync replicas."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log.connection.close": False})
    producer.produce(topic, value, on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failed == []


def test_a_controller_that_is_killed_is_followed_before_its_session_ends(cluster: Cluster):
    """Nobody waits for ZooKeeper to notice: who finds its connections refused stands for election."""
    cluster.create_topic("a", partitions=3)
    before = cluster.metadata_of().controller_id
    cluster.brokers[before].kill()
    wait_until(lambda: cluster.metadata_of().controller_id not in (-1, before), "another controller")
    wait_until(
        lambda: {each.leader for each in cluster.metadata_of("a").topics["a"].partitions}.isdisjoint({before, -1}),
        "leaders",
    )
    produce(cluster, "a", "after")
    cluster.create_topic("b", replication_factor=2)
    cluster.brokers[before].start()
    cluster.wait_until_in_sync("a")


def test_brokers_serve_while_zookeeper_is_away_and_decide_when_it_is_back(cluster: Cluster, servers: ZooKeeperServers):
    cluster.create_topic("a", partitions=3)
    cluster.wait_until_in_sync("a")
    for number in range(3):
        servers.kill(number)
    produce(cluster, "a", "while it is away")
    servers.start()
    cluster.create_topic("b")
    produce(cluster, "b", "when it is back")
