"""What is done to those who lead the records of a queue and its state; when a function returns, its fault is over.

The state of a group or channel and partition is in a partition of `__share_group_state`, whose leader is found by hash.
"""

import time
from collections.abc import Callable, Sequence
from random import Random

from chaos.cluster_faults import AWAY_S, PAUSE_S, kill_brokers
from chaos.crash import kill, start_and_die
from chaos.leader_moves import move_leaders
from chaos.network_cluster import NetworkCluster
from ottla.coordination.key_partition import partition_of_key
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.queues.share_state import ShareKey
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster

CUT_S = (2.0, 14.0)
"""How long a way is cut: for less than `replica.lag.time.max.ms` is, as it is set here, or for more."""

LEADERS = ("records", "state", "both")

Deed = Callable[[Cluster, Sequence[BrokerProcess], Random], None]


def leaders(
    cluster: Cluster, group: str, topic: str, partition: int, state_partitions: int, of: str
) -> list[BrokerProcess]:
    """Who leads the records of a partition, the state of a group there, or one or two who lead both."""
    topic_id = cluster.metadata_of(topic).topics[topic].topic_id
    of_state = partition_of_key(ShareKey(group, topic_id, partition).text, state_partitions)
    found = []
    if of in ("records", "both"):
        found.append(cluster.leader(topic, partition))
    if of in ("state", "both"):
        found.append(cluster.leader(SHARE_GROUP_STATE_TOPIC, of_state))
    return list({id(each): each for each in found}.values())


def kill_and_start(_cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """All at once, and after a while they are back."""
    kill_brokers(brokers, rng)


def kill_twice(_cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """They die once more while they start."""
    for broker in brokers:
        broker.kill()
        start_and_die(broker, kill, rng)
        broker.start()


def stop(_cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """As an operator does, one after the other: what they lead moves away first."""
    for broker in brokers:
        broker.stop()
    time.sleep(rng.uniform(0, AWAY_S))
    for broker in brokers:
        broker.start()


def pause(_cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """They go on as if they still led, whether or not others do by then."""
    for broker in brokers:
        broker.pause()
    try:
        time.sleep(rng.uniform(1.0, PAUSE_S))
    finally:
        for broker in brokers:
            broker.resume()


def cut(cluster: Cluster, brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """Each of them hears nothing of other brokers, nor they of it; clients reach all."""
    assert isinstance(cluster, NetworkCluster), "only a network can be cut"
    try:
        for broker in brokers:
            cluster.cut_off(broker)
        time.sleep(rng.uniform(*CUT_S))
    finally:
        cluster.network.heal()


DEEDS: dict[str, Deed] = {"kill -9": kill_and_start, "pause": pause, "stop": stop, "cut": cut, "move": move_leaders}
DEEDS_ALONE: dict[str, Deed] = {
    "kill -9": kill_and_start,
    "kill -9 and again": kill_twice,
    "pause": pause,
    "stop": stop,
}
"""Those that concern a broker without others."""
