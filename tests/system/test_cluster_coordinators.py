"""Groups and transactions go on when the broker that coordinates them dies: nothing is lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.system.test_cluster import Load, read_all

NewCluster = Callable[..., Cluster]

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
ASK_AGAIN = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
FEW = {
    "offsets_topic_num_partitions": "4",
    "transaction_state_log_num_partitions": "4",
    "group_initial_rebalance_delay_ms": "0",
}


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(3, **FEW).start()
    cluster.wait_until_registered()
    return cluster


def coordinator(cluster: Cluster, group: str) -> BrokerProcess:
    """The broker that coordinates a group, as it tells clients."""

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log.connection.close": False})
    described = answered(lambda: admin.describe_consumer_groups([group]), f"the coordinator of {group}")
    return cluster.brokers[described.coordinator.id]


def answered(ask: Callable[[], dict[Any, Future[Any]]], what: str) -> Any:
    """What a coordinator answers, asked again while the brokers have yet to hear who it is, or it reads its log."""

    def look() -> tuple[Any] | None:
        (future,) = ask().values()
        try:
            return (future.result(60),)
        except KafkaException as error:
            if error.args[0].code() not in ASK_AGAIN:
                raise
            return None

    return wait_until(look, what)[0]


class Member:
    """A consumer of a group that counts what it reads and commits as it reads."""

    def __init__(self, cluster: Cluster, group: str, topic: str, protocol: str) -> None:
        self.found: Counter[int] = Counter()
        settings = {"group.protocol": protocol}
        if protocol == "classic":
            settings |= {"session.timeout.ms": "10000"}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log.connection.close": False,
                **settings,
            }
        )
        self._consumer.subscribe([topic])

    def read(self, count: int) -> None:
        """Read until `count` records were found, and commit."""

        def look() -> bool:
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.found[int(message.value())] += 1
            return len(self.found) >= count

        wait_until(look, f"{count} records")
        wait_until(self._commit, "a commit")

    def _commit(self) -> bool:
        try:
            committed = self._consumer.commit(asynchronous=False)
        except KafkaException:
            return False
        return all(each.error is None for each in committed)

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.long), "consumer"])
def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: Cluster, protocol: str) -> None:
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    load, group = Load(cluster, topic), f"workers-{protocol}"
    member = Member(cluster, group, topic, protocol)
    load.send(100)
    member.read(100)
    cluster.wait_until_in_sync(OFFSETS)
    for round_ in range(2):
        coordinator(cluster, group).kill()
        load.send(100)
        load.settle()
        member.read(100 * (round_ + 2))
        cluster.start()
        cluster.wait_until_in_sync(OFFSETS)
        cluster.wait_until_in_sync(topic)
    assert set(member.found.values()) == {1}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = ConsumerGroupTopicPartitions(group)
    committed = answered(lambda: admin.list_consumer_group_offsets([wanted]), "what is committed")
    assert sum(each.offset for each in committed.topic_partitions) == 300
    member.close()


def test_transactions_are_whole_when_their_coordinator_and_leaders_are_killed(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "copier",
            "transaction.timeout.ms": 180_000,
            "log.connection.close": False,
        }
    )
    producer.init_transactions(180)
    cluster.wait_until_in_sync(TRANSACTIONS)
    committed: list[int] = []
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    def transact(first: int, count: int, *, kill: BrokerProcess | None = None, commit: bool = True) -> None:
        producer.begin_transaction()
        for number in range(first, first + count):
            producer.produce(topic, str(number).encode(), on_delivery=on_delivery)
            producer.poll(0)
        if kill is not None:
            kill.kill()
        if commit:
            producer.commit_transaction(180)
            assert failed == []
            committed.extend(range(first, first + count))
        else:
            producer.abort_transaction(180)
            failed.clear()  # what was not sent yet

    transact(0, 30)
    for round_ in range(3):
        victim = cluster.brokers[round_ + 1]
        transact(1000 * round_ + 100, 30, kill=victim)
        transact(1000 * round_ + 200, 30, commit=False)
        transact(1000 * round_ + 300, 30)
        cluster.start()
        cluster.wait_until_in_sync(topic)
        cluster.wait_until_in_sync(TRANSACTIONS)
    found = read_all(cluster, topic, 3, len(committed))
    assert found == Counter(committed)


def test_a_rolling_restart_fails_no_acknowledged_write_and_leaves_everything_in_sync(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 6, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    load = Load(cluster, topic)
    for broker in cluster.brokers.values():
        load.send(100)
        assert broker.stop() == 0
        load.send(100)
        broker.start()
        cluster.wait_until_in_sync(topic)
    load.settle()
    assert read_all(cluster, topic, 6, len(load.acknowledged)) == Counter(load.acknowledged)
    assert "shutdown was unclean" not in cluster.log
