"""Three broker processes are one cluster for clients of others: whoever dies, what was acknowledged stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.cluster import Cluster, wait_until
from tests.waiting_lines import ended

NewCluster = Callable[..., Cluster]

DELIVERY_S = 180


class Load:
    """An idempotent producer of numbered records; which of them were acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": DELIVERY_S * 1000,
                "request.timeout.ms": 5_000,
                "socket.timeout.ms": 6_000,  # a broker that stands still does not close its connections
                "log.connection.close": False,
            },
            logger=None,
        )

    def send(self, count: int) -> None:
        for number in range(self._sent, self._sent + count):
            self._producer.produce(self.topic, str(number).encode(), on_delivery=self._on_delivery)
            self._producer.poll(0)
        self._sent += count

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))
        else:
            self.failed.append(str(error))

    def settle(self) -> None:
        """Wait until everything that was sent is acknowledged."""
        self._producer.flush(DELIVERY_S)
        assert (self.failed, len(self.acknowledged)) == ([], self._sent)


def read_all(cluster: Cluster, topic: str, partitions: int, count: int) -> Counter[int]:
    """What the topic holds, until `count` different numbers were read."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log.connection.close": False})
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    found: Counter[int] = Counter()

    def look() -> bool:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                found[int(message.value())] += 1
        return len(found) >= count

    wait_until(look, f"{count} records of {topic}", DELIVERY_S)
    consumer.close()
    return found


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(3).start()
    cluster.wait_until_registered()
    return cluster


def test_what_was_acknowledged_survives_whoever_is_killed(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    load = Load(cluster, topic)
    load.send(100)
    load.settle()
    for _ in range(2):
        for victim in (cluster.leader(topic), cluster.controller):
            load.send(100)
            victim.kill()
            load.send(100)
            load.settle()
            victim.start()
            cluster.wait_until_in_sync(topic)
    assert read_all(cluster, topic, 3, len(load.acknowledged)) == Counter(load.acknowledged)


def test_all_killed_at_once_come_back_with_everything(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    load = Load(cluster, topic)
    for _ in range(2):
        load.send(100)
        load.settle()
        load.send(100)
        cluster.kill()
        cluster.start()
        load.settle()
    assert read_all(cluster, topic, 3, len(load.acknowledged)) == Counter(load.acknowledged)
    cluster.wait_until_in_sync(topic)


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", *arguments]
    environment = {**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap}
    return ended(subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False))


def ottla(cluster: Cluster, *arguments: str) -> str:
    """What a command says, which must succeed. The broker that it asks may have yet to hear of what another decided."""
    done = run(cluster, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def is_whole(cluster: Cluster, brokers: list[int]) -> bool:
    """Whether the cluster has these brokers, and nothing is amiss. One that has no turn for seconds may be fenced."""
    status = json.loads(run(cluster, "cluster", "status", "--json").stdout)
    amiss = [status[name] for name in ("offline", "under_min_isr", "under_replicated", "reassigned")]
    return [each["broker"] for each in status["brokers"]] == brokers and amiss == [[]] * 4


def status_of(cluster: Cluster) -> dict[str, str]:
    """What the command says of each broker, with a whole list of bootstrap brokers; it must not call that well."""
    done = run(cluster, "cluster", "status")
    assert (done.returncode, "every partition has a leader" in done.stdout) == (1, False), done
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: row[3] for row in rows if row and row[0] in ("1", "2", "3")}


def test_the_status_tells_who_is_dead_or_stands_still(new_cluster: NewCluster) -> None:
    """Before the cluster notices: sessions outlast the test."""
    cluster = new_cluster(3, broker_session_timeout_ms="55000").start()
    cluster.wait_until_registered()
    wait_until(lambda: run(cluster, "cluster", "status").returncode == 0, "a cluster that is well")
    controller = next(each for each, broker in cluster.brokers.items() if broker is cluster.controller)
    for paused in sorted(cluster.brokers, key=lambda each: each == controller):
        cluster.brokers[paused].pause()
        assert status_of(cluster)[str(paused)] == "down"
        cluster.brokers[paused].resume()
        wait_until(lambda: run(cluster, "cluster", "status").returncode == 0, "all to be well again")
    dead = next(each for each in cluster.brokers if each != controller)
    cluster.brokers[dead].kill()
    assert status_of(cluster)[str(dead)] in ("down", "fenced")
    listed = run(cluster, "log", "dirs", "--json")
    errors = {each["broker"]: each["error"] for each in json.loads(listed.stdout)}
    assert (listed.returncode, errors[dead]) == (1, "BROKER_NOT_AVAILABLE"), listed
    assert f"broker {dead} did not answer" in listed.stderr


@contextmanager
def stopped_writer(cluster: Cluster) -> Iterator[int]:
    """The id of a process that stands still in the middle of a write to the metadata store, until the block ends."""
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); "
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(cluster.directory / "metadata" / "metadata.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGSTOP)
        try:
            yield writer.pid
        finally:
            writer.kill()


def test_the_status_names_the_process_that_keeps_the_lock_of_the_store(cluster: Cluster) -> None:
    wait_until(lambda: run(cluster, "cluster", "status").returncode == 0, "a cluster that is well")
    with stopped_writer(cluster) as pid:
        done = run(cluster, "cluster", "status")
    assert (done.returncode, f"process {pid}" in done.stdout) == (1, True), done
    wait_until(lambda: run(cluster, "cluster", "status").returncode == 0, "a cluster that is well again")


def test_changes_fail_with_the_process_that_keeps_the_lock_of_the_store(cluster: Cluster) -> None:
    cluster.create_topic("a")
    commands = (
        ("topic", "create", "b"),
        ("topic", "reassign", "a", "--replication-factor", "2", "--execute"),
        ("cluster", "elect"),
        ("cluster", "elect", "a:0"),
    )
    with stopped_writer(cluster) as pid:
        ended = [run(cluster, *each) for each in commands]
    for each in ended:
        # Where no leader has to change, nothing has to be written for an election.
        needs_nothing = each.returncode == 0 and each.stdout.startswith("nothing to elect")
        assert needs_nothing or (each.returncode, f"process {pid}" in each.stderr) == (1, True), ended


def test_a_broker_is_emptied_taken_out_and_missed_by_nobody(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3, replication_factor=2)
    load = Load(cluster, topic)
    load.send(300)
    load.settle()
    wait_until(lambda: is_whole(cluster, [1, 2, 3]), "a cluster of three brokers")
    assert "every partition has a leader and all its replicas in sync" in ottla(cluster, "cluster", "status")
    plan = ottla(cluster, "cluster", "decommission", "3")
    assert "2 partitions would change; add --execute to do it" in plan
    planned = json.loads(ottla(cluster, "cluster", "decommission", "3", "--json"))
    assert (planned["broker"], planned["state"], len(planned["moves"])) == (3, "planned", 2)
    assert all(3 in each["from"] and set(each["to"]) == {1, 2} for each in planned["moves"])
    emptied = json.loads(ottla(cluster, "cluster", "decommission", "3", "--execute", "--json"))
    assert emptied == {**planned, "state": "empty"}
    assert "broker 3 has no replicas left" in ottla(cluster, "cluster", "decommission", "3")
    wait_until(
        lambda: {each for p in cluster.metadata_of(topic).topics[topic].partitions for each in p.replicas} == {1, 2},
        "clients to be told of no replica on broker 3",
    )
    wait_until(lambda: not list((cluster.directory / "3").glob("t-*[0-9]")), "the files of broker 3 to go")
    cluster.brokers[3].stop()
    assert json.loads(ottla(cluster, "cluster", "unregister", "3", "--json")) == {"broker": 3, "unregistered": True}
    wait_until(lambda: is_whole(cluster, [1, 2]), "a cluster of two brokers")
    assert read_all(cluster, topic, 3, 300) == Counter(load.acknowledged)


def test_copies_are_added_by_a_plan_in_a_file_and_led_by_the_first_of_them(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 1, replication_factor=1)
    load = Load(cluster, topic)
    load.send(100)
    load.settle()
    [only] = cluster.partition(topic).replicas
    others = [each for each in cluster.brokers if each != only]
    plan = cluster.directory / "plan.json"
    assert f'"replicas":[{only},' in ottla(cluster, "topic", "reassign", topic, "-r", "3", "--json")
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [*others, only]}]}))
    execute = ("topic", "reassign", "--plan", str(plan), "--execute", "--throttle", "1000000")
    move = {"topic": topic, "partition": 0, "from": [only], "to": [*others, only]}
    assert json.loads(ottla(cluster, *execute, "--no-wait", "--json")) == {"state": "moving", "moves": [move]}
    throttle = f"follower.replication.throttled.replicas=0:{others[0]}"
    wait_until(lambda: throttle in ottla(cluster, "topic", "describe", topic), "the throttle to be told of")
    cluster.wait_until_in_sync(topic)
    wait_until(lambda: "removed" in ottla(cluster, "topic", "reassign", topic, "--verify"), "the end of the throttle")
    wait_until(lambda: "throttled" not in ottla(cluster, "topic", "describe", topic), "no throttle to be told of")
    ottla(cluster, "cluster", "elect", topic)
    assert wait_until(lambda: cluster.partition(topic).leader == others[0], "the preferred leader")
    for victim in others:
        cluster.brokers[victim].kill()
    assert wait_until(lambda: cluster.partition(topic).leader == only, "the last replica to lead")
    assert read_all(cluster, topic, 1, 100) == Counter(load.acknowledged)
