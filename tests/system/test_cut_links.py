"""Three brokers in network namespaces whose links are cut: packets are dropped, and nobody is told.

Whether clients go on in time is seen by states, not by a clock: what must not be waited for is set to a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from chaos.broker_network import BrokerNetwork, why_not
from ottla.client.io.cluster_metadata import PartitionMetadata
from tests.cluster import Cluster, wait_until

A_DAY = "86400000"
DELIVERY_S = 120
SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": A_DAY,
    "min.insync.replicas": "2",
}
PARTITIONS = 3


@pytest.fixture(scope="module")
def network() -> Iterator[BrokerNetwork]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with BrokerNetwork(3) as three:
        yield three


@pytest.fixture(scope="module")
def started(network: BrokerNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All brokers reach the metadata store, clients all brokers, whichever link between brokers is cut."""
    three = Cluster(tmp_path_factory.mktemp("brokers"), 3, dict(SETTINGS))
    for broker_id, broker in three.brokers.items():
        broker.host, broker.inside = network.address(broker_id), network.inside(broker_id)
    with three:
        yield three


@pytest.fixture
def cluster(started: Cluster, network: BrokerNetwork) -> Cluster:
    """No link is cut, and all serve."""
    network.heal()
    started.wait_until_registered()
    return started


def new_topic(cluster: Cluster) -> str:
    """A topic of which each broker leads a partition, with all replicas in sync."""
    topic = cluster.create_topic(f"t-{uuid4().hex[:8]}", PARTITIONS)
    cluster.wait_until_in_sync(topic)
    return topic


def cut(network: BrokerNetwork, broker_id: int, *others: int) -> None:
    network.cut_out(broker_id, others)
    network.cut_in(broker_id, others)


def produce_to_all(cluster: Cluster, topic: str) -> None:
    """Have a record of each partition acknowledged by all in-sync replicas."""
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "request.timeout.ms": 2_000,
            "socket.timeout.ms": 3_000,
            "delivery.timeout.ms": DELIVERY_S * 1000,
            "log.connection.close": False,
        },
        logger=None,
    )
    for index in range(PARTITIONS):
        producer.produce(
            topic, b"x", partition=index, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert (producer.flush(DELIVERY_S), failed) == (0, [])


def test_two_brokers_that_lose_each_other_hold_no_producer_up(cluster: Cluster, network: BrokerNetwork) -> None:
    """The follower leaves the ISR, though it may lag for a day and the controller hears both."""
    topic = new_topic(cluster)
    controller = cluster.metadata_of().controller_id
    one, other = sorted(set(cluster.brokers) - {controller})
    led = {each.partition: each.leader for each in cluster.metadata_of(topic).topics[topic].partitions}
    cut(network, one, other)
    produce_to_all(cluster, topic)
    without = {one: other, other: one}

    def partitions() -> dict[int, PartitionMetadata]:
        return {each.partition: each for each in cluster.metadata_of(topic, at=controller).topics[topic].partitions}

    def are_apart() -> bool:
        after = partitions()
        return all(without[leader] not in after[index].isr for index, leader in led.items() if leader in without)

    wait_until(are_apart, "the followers that were lost to leave the ISR, in the metadata of the controller's broker")
    assert {index: each.leader for index, each in partitions().items()} == led
    assert cluster.serving(at=controller) == 3
    network.heal()
    cluster.wait_until_in_sync(topic)


def test_a_controller_that_loses_the_others_is_followed_and_no_producer_waits_for_it(
    cluster: Cluster, network: BrokerNetwork
) -> None:
    topic = new_topic(cluster)
    before = cluster.metadata_of().controller_id
    others = sorted(set(cluster.brokers) - {before})
    cut(network, before, *others)
    produce_to_all(cluster, topic)
    wait_until(lambda: cluster.metadata_of(at=others[0]).controller_id in others, "another controller")
    leaders = {each.leader for each in cluster.metadata_of(topic, at=others[0]).topics[topic].partitions}
    assert leaders <= set(others)
    network.heal()
    cluster.wait_until_in_sync(topic)


@pytest.mark.parametrize("direction", ["both ways", "what it sends", "what it is sent"])
def test_a_broker_that_loses_the_others_is_fenced_and_no_producer_waits_for_it(
    cluster: Cluster, network: BrokerNetwork, direction: str
) -> None:
    topic = new_topic(cluster)
    controller = cluster.metadata_of().controller_id
    lost, other = sorted(set(cluster.brokers) - {controller})
    if direction != "what it is sent":
        network.cut_out(lost, (controller, other))
    if direction != "what it sends":
        network.cut_in(lost, (controller, other))
    produce_to_all(cluster, topic)
    known = cluster.metadata_of(topic, at=controller)
    assert lost not in {each.leader for each in known.topics[topic].partitions}
    assert known.controller_id == controller
    network.heal()
    cluster.wait_until_in_sync(topic)
