"""Brokers whose metadata is in ZooKeeper, as processes of their own beside real servers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.admin import NewTopic as NewConfluentTopic

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.certificates import Authority
from tests.cluster import Cluster, wait_until
from tests.unit.metadata.store.answer_eater import AnswerEater
from tools.zookeeper import ZooKeeperServers

REASON = re.compile(
    "the metadata store (has not answered|cannot be used).*; it is not known whether the change was made"
)
KEPT_FOR_A_MINUTE = ConfigResource(
    ResourceType.TOPIC,
    "a",
    incremental_configs=[ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)],
)
LONG_SESSIONS = {"broker.session.timeout.ms": "55000"}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ZooKeeperServers]:
    with ZooKeeperServers(tmp_path / "zookeeper", 3) as three:
        yield three


@pytest.fixture
def cluster(servers: ZooKeeperServers, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers whose sessions outlast the test unless they are ended."""
    (tmp_path / "brokers").mkdir()
    with Cluster(tmp_path / "brokers", 3, LONG_SESSIONS, metadata=servers.location()) as three:
        three.wait_until_registered()
        yield three


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", *arguments, "-b", cluster.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def produce(bootstrap: str, topic: str, value: str) -> None:
    """Have a record acknowledged by all in-sync replicas."""
    failed: list[object] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "log.connection.close": False,
    }
    producer = Producer(settings)
    producer.produce(topic, value, on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(60) == 0
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
    produce(cluster.bootstrap, "a", "after")
    cluster.create_topic("b", replication_factor=2)
    cluster.brokers[before].start()
    cluster.wait_until_in_sync("a")


def test_brokers_serve_while_zookeeper_is_away_and_decide_when_it_is_back(cluster: Cluster, servers: ZooKeeperServers):
    cluster.create_topic("a", partitions=3)
    produce(cluster.bootstrap, "a", "before")  # every broker has read of the topic: all three acknowledge
    for number in range(3):
        servers.kill(number)
    for broker in cluster.brokers.values():  # each has producer ids in hand
        produce(broker.bootstrap, "a", "while it is away")
    servers.start()
    cluster.create_topic("b")
    produce(cluster.bootstrap, "b", "when it is back")


def test_the_status_is_not_well_while_zookeeper_stands_still(cluster: Cluster, servers: ZooKeeperServers):
    wait_until(lambda: run(cluster, "cluster", "status").returncode == 0, "a cluster that is well")
    for number in range(3):
        servers.pause(number)
    during = run(cluster, "cluster", "status")
    for number in range(3):
        servers.resume(number)
    assert (during.returncode, "the metadata store has not answered within 2 s" in during.stdout) == (1, True), during


def test_changes_fail_with_the_reason_while_zookeeper_stands_still(cluster: Cluster, servers: ZooKeeperServers):
    """Whichever broker is asked, by our commands and by another client of Kafka."""
    cluster.create_topic("a")
    for number in range(3):
        servers.pause(number)
    commands = (
        ("topic", "create", "b"),
        ("topic", "reassign", "a", "--replication-factor", "2", "--execute"),
        ("cluster", "elect"),
        ("cluster", "elect", "a:0"),
    )
    ended = [run(cluster, *each) for each in commands]
    refused, reasons = [], []
    for broker in cluster.brokers.values():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log.connection.close": False})
        asked = (
            admin.create_topics([NewConfluentTopic("c", 1, 1)]),
            admin.incremental_alter_configs([KEPT_FOR_A_MINUTE]),
            admin.delete_topics(["a"]),  # librdkafka asks in a version whose answer has no text
        )
        errors = [future.exception(120).args[0] for each in asked for future in each.values()]
        refused += [each.code() for each in errors]
        reasons += [each.str() for each in errors[:2]]
    for number in range(3):
        servers.resume(number)
    assert [each.returncode for each in ended] == [1] * len(commands), ended
    assert all(REASON.search(each.stderr) for each in ended), ended
    assert refused == [KafkaError.REQUEST_TIMED_OUT] * 9
    assert all(map(REASON.search, reasons)), reasons


@pytest.mark.long
def test_brokers_that_speak_tls_with_zookeeper_elect_a_controller_when_theirs_is_killed(tmp_path: Path):
    """With certificates on both sides, and nodes that are for the brokers' alone."""
    authority = Authority()
    (tmp_path / "brokers").mkdir()
    key, trusted = authority.identity("ottla").write_pem(tmp_path / "ottla.pem"), authority.write(tmp_path / "ca.pem")
    tls = {"ssl.keyStore.location": str(key), "ssl.trustStore.location": str(trusted)}
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(key),
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.set.acl": "true",
    }
    with (
        ZooKeeperServers(tmp_path / "zookeeper", 3, tls=tls) as servers,
        Cluster(tmp_path / "brokers", 3, {**LONG_SESSIONS, **settings}, metadata=servers.location()) as cluster,
    ):
        cluster.wait_until_registered()
        for topic in ("a", "b"):
            cluster.create_topic(topic, partitions=3)
            cluster.wait_until_in_sync(topic)
            before = cluster.controller
            before.kill()
            wait_until(lambda: all_led(cluster, topic, without=before), f"leaders of {topic} and a controller")  # noqa: B023
            produce(cluster.bootstrap, topic, "after")
            before.start()
            cluster.wait_until_in_sync(topic)
        servers.kill(servers.leader())
        cluster.create_topic("c")
        produce(cluster.bootstrap, "c", "when its leader is gone")


def all_led(cluster: Cluster, topic: str, *, without: BrokerProcess) -> bool:
    """Whether there is a controller, and all partitions have leaders, without a broker that was killed."""
    gone = next(number for number, broker in cluster.brokers.items() if broker is without)
    seen = cluster.metadata_of(topic)
    return {gone, -1}.isdisjoint({seen.controller_id, *(each.leader for each in seen.topics[topic].partitions)})


@pytest.mark.long
def test_what_a_controller_is_asked_that_is_cut_off_from_zookeeper_is_decided_by_the_next_one(tmp_path: Path):
    """Its own image stays as it was: it hears from the others who decides."""
    (tmp_path / "brokers").mkdir()
    with ZooKeeperServers(tmp_path / "zookeeper") as server, ExitStack() as around:
        settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
        cluster = Cluster(tmp_path / "brokers", 3, settings)
        ways = {number: AnswerEater(server.ports[0]) for number in cluster.brokers}
        for number, broker in cluster.brokers.items():
            around.callback(ways[number].close)
            broker.metadata = server.location().replace(str(server.ports[0]), str(ways[number].port))
        with cluster:
            cluster.wait_until_registered()
            before = cluster.metadata_of().controller_id
            other = next(number for number in cluster.brokers if number != before)
            ways[before].eat_all()
            wait_until(lambda: cluster.metadata_of(at=other).controller_id not in (-1, before), "another controller")
            with BlockingClient(cluster.brokers[before].bootstrap) as client:
                client.create_topic(NewTopic("a", 1, 2))
            wait_until(lambda: cluster.metadata_of("a", at=other).topics["a"].partitions[0].leader != -1, "a leader")
            ways[before].cut()
            cluster.wait_until_registered()
            cluster.create_topic("b")


def test_a_broker_that_was_alone_is_joined_by_others_after_a_move(servers: ZooKeeperServers, tmp_path: Path):
    alone = BrokerProcess(tmp_path / "brokers" / "1")
    alone.data_dir.parent.mkdir()
    alone.start()
    with BlockingClient(alone.bootstrap) as client:
        cluster_id = client.cluster().cluster_id
        client.create_topic(NewTopic("a", 1, 1))
    produce(alone.bootstrap, "a", "when it was alone")
    alone.stop()
    command = [sys.executable, "-m", "ottla.cli", "cluster", "move", "--data", str(alone.data_dir), servers.location()]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith(
        f"moved the metadata of cluster {cluster_id} to "
    )
    with Cluster(tmp_path / "brokers", 3, LONG_SESSIONS, metadata=servers.location()) as cluster:
        cluster.wait_until_registered()
        assert cluster.metadata_of().cluster_id == cluster_id
        produce(cluster.bootstrap, "a", "with others")
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log.connection.close": False})
        consumer.assign([TopicPartition("a", 0, OFFSET_BEGINNING)])
        read = [message.value() for message in consumer.consume(2, 60)]
        consumer.close()
        assert read == [b"when it was alone", b"with others"]
