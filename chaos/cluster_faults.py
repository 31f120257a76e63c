"""What is done to a cluster; when a function returns, its fault is over, and every broker runs again."""

import time
from collections.abc import Callable, Sequence
from random import Random

from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from workload.worker import PATIENCE_S

AWAY_S = 3.0
"""The longest that a broker that was killed or stopped stays away."""
PAUSE_S = 12.0
"""Longer than `broker.session.timeout.ms` by default: others lead when the broker goes on as if nothing had been."""
COORDINATED = ("__consumer_offsets", "__transaction_state")

Fault = Callable[[Cluster, Random], None]


def kill_leader(cluster: Cluster, rng: Random) -> None:
    """Who leads a partition of the load."""
    kill_brokers([cluster.leader(rng.choice(("load-confluent", "load-aiokafka")), rng.randrange(2))], rng)


def kill_controller(cluster: Cluster, rng: Random) -> None:
    """Who decides."""
    kill_brokers([cluster.controller], rng)


def kill_coordinator(cluster: Cluster, rng: Random) -> None:
    """Who coordinates a part of the groups, or of the transactions."""
    kill_brokers([cluster.leader(rng.choice(COORDINATED), rng.randrange(2))], rng)


def kill_any(cluster: Cluster, rng: Random) -> None:
    """Whoever it is."""
    kill_brokers([rng.choice(list(cluster.brokers.values()))], rng)


def kill_two(cluster: Cluster, rng: Random) -> None:
    """More than min.insync.replicas allows for: nothing is acknowledged until one is back."""
    kill_brokers(rng.sample(list(cluster.brokers.values()), 2), rng)


def kill_all(cluster: Cluster, rng: Random) -> None:
    """All at once."""
    kill_brokers(list(cluster.brokers.values()), rng)


def stop(cluster: Cluster, rng: Random) -> None:
    """As an operator does."""
    broker = rng.choice(list(cluster.brokers.values()))
    broker.stop()
    time.sleep(rng.uniform(0, AWAY_S))
    broker.start()


def rolling_restart(cluster: Cluster, _rng: Random) -> None:
    """As an operator does with a new version: one after the other, each when all replicas are in sync again."""
    for broker in cluster.brokers.values():
        broker.stop()
        broker.start()
        wait_until(lambda: _all_in_sync(cluster), "all replicas in sync", 2 * PATIENCE_S)


def pause(cluster: Cluster, rng: Random) -> None:
    """Nobody hears of it until the time of silence is over; then it goes on as if it still led what it led."""
    broker = rng.choice(list(cluster.brokers.values()))
    broker.pause()
    try:
        time.sleep(PAUSE_S)
    finally:
        broker.resume()


FAULTS: dict[str, Fault] = {
    "kill -9 of a leader": kill_leader,
    "kill -9 of the controller": kill_controller,
    "kill -9 of a coordinator": kill_coordinator,
    "kill -9 of any": kill_any,
    "kill -9 of two": kill_two,
    "kill -9 of all": kill_all,
    "stop": stop,
    "rolling restart": rolling_restart,
    "pause": pause,
}


def _all_in_sync(cluster: Cluster) -> bool:
    with BlockingClient(cluster.bootstrap) as client:
        partitions = [each for topic in client.topics().values() for each in topic.partitions]
    return all(each.leader >= 0 and set(each.isr) >= set(each.replicas) for each in partitions)


def kill_brokers(brokers: Sequence[BrokerProcess], rng: Random) -> None:
    """All at once; they come back after a while."""
    for broker in brokers:
        broker.kill()
    time.sleep(rng.uniform(0, AWAY_S))
    for broker in brokers:
        broker.spawn()
    for broker in brokers:
        broker.wait_until_ready()
