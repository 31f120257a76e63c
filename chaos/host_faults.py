"""What is done to hosts, their disks, their network and ZooKeeper; when a function returns, its fault is over."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from chaos.host_cluster import HostCluster
from tests.broker_process import BrokerProcess

CUT_S = (3.0, 20.0)
"""How long a way is cut: for less than `broker.session.timeout.ms` by default, or for more."""
LONG_S = 20.0
"""Twice `broker.session.timeout.ms` and more: others are elected meanwhile."""
CUT_OFF_S = 45.0
"""For the controller to miss the others, and for another to be elected and to miss the first, twice over."""
MINUTES_S = 300.0
FULL_S = 12.0
CLOCK_S = 50 * 60.0
"""How far clocks jump at most: a broker refuses records that are an hour later than it thinks it is."""
SESSION_ENDED_S = 12.0
"""A broker whose disk is new is another one for ZooKeeper until the session of the one before has ended."""

HostFault = Callable[[HostCluster, Random], None]


def zookeeper_away(cluster: HostCluster, rng: Random) -> None:
    """All of its servers."""
    count = len(cluster.zookeeper.ports)
    for number in range(count):
        cluster.zookeeper.kill(number)
    time.sleep(rng.uniform(*CUT_S))
    cluster.zookeeper.start()


def zookeeper_away_for_minutes(cluster: HostCluster, _rng: Random) -> None:
    """What is decided already holds: leaders lead, followers follow, and clients notice nothing."""
    count = len(cluster.zookeeper.ports)
    for number in range(count):
        cluster.zookeeper.kill(number)
    time.sleep(MINUTES_S)
    cluster.zookeeper.start()


def zookeeper_leader_killed(cluster: HostCluster, rng: Random) -> None:
    """It elects another one, and the sessions go on there."""
    leader = cluster.zookeeper.leader()
    cluster.zookeeper.kill(leader)
    time.sleep(rng.uniform(0, 5))
    cluster.zookeeper.start()


def cut_both_ways(cluster: HostCluster, rng: Random) -> None:
    """One broker and the others; clients and ZooKeeper reach all of them."""
    victim = _any(cluster, rng)
    with _cut(cluster, rng.uniform(*CUT_S)):
        cluster.network.cut_out(victim, cluster.others(victim))
        cluster.network.cut_in(victim, cluster.others(victim))


def cut_one_way_out(cluster: HostCluster, rng: Random) -> None:
    """It hears the others, who do not hear it."""
    victim = _any(cluster, rng)
    with _cut(cluster, rng.uniform(*CUT_S)):
        cluster.network.cut_out(victim, cluster.others(victim))


def cut_one_way_in(cluster: HostCluster, rng: Random) -> None:
    """They hear it, and it does not hear them."""
    victim = _any(cluster, rng)
    with _cut(cluster, rng.uniform(*CUT_S)):
        cluster.network.cut_in(victim, cluster.others(victim))


def cut_controller_from_brokers(cluster: HostCluster, _rng: Random) -> None:
    """The one that decides hears nobody but ZooKeeper, for so long that another is to decide."""
    victim = _id_of(cluster, cluster.controller)
    with _cut(cluster, CUT_OFF_S):
        cluster.network.cut_out(victim, cluster.others(victim))
        cluster.network.cut_in(victim, cluster.others(victim))


def cut_from_zookeeper(cluster: HostCluster, rng: Random) -> None:
    """One broker alone, for longer than its session lasts."""
    _cut_ports(cluster, _any(cluster, rng))


def cut_controller_from_zookeeper(cluster: HostCluster, _rng: Random) -> None:
    """The one that decides."""
    _cut_ports(cluster, _id_of(cluster, cluster.controller))


def pause_leader(cluster: HostCluster, rng: Random) -> None:
    """For twice its session; then it goes on as if it still led."""
    leader = _leader(cluster, rng)
    leader.pause()
    try:
        time.sleep(LONG_S)
    finally:
        leader.resume()


def clocks_jump(cluster: HostCluster, rng: Random) -> None:
    """Each broker's by as much as it likes, ahead or back, and after a while to the right time again."""
    try:
        for clock in cluster.clocks.values():
            clock.shift(rng.uniform(-CLOCK_S, CLOCK_S))
        time.sleep(rng.uniform(*CUT_S))
    finally:
        for clock in cluster.clocks.values():
            clock.shift(0)


def full_disk(cluster: HostCluster, rng: Random) -> None:
    """Of one, who leads some partitions and follows in others."""
    ballast = cluster.disks[_any(cluster, rng)].fill()
    try:
        time.sleep(FULL_S)
    finally:
        ballast.unlink()


def lost_disk(cluster: HostCluster, rng: Random) -> None:
    """One comes back with nothing, and is filled by the others."""
    victim = _any(cluster, rng)
    broker = cluster.brokers[victim]
    broker.kill()
    cluster.empty_disk(victim)
    time.sleep(SESSION_ENDED_S)
    broker.start()


def power_cut(cluster: HostCluster, rng: Random) -> None:
    """Of one: what it had not synced is gone."""
    _cut_power(cluster, [_any(cluster, rng)], rng)


def power_cut_of_all(cluster: HostCluster, rng: Random) -> None:
    """At once. What was acknowledged and not synced anywhere would be gone."""
    _cut_power(cluster, list(cluster.brokers), rng)


HOST_FAULTS: dict[str, HostFault] = {
    "ZooKeeper away": zookeeper_away,
    "ZooKeeper away for minutes": zookeeper_away_for_minutes,
    "kill -9 of ZooKeeper's leader": zookeeper_leader_killed,
    "network: both ways": cut_both_ways,
    "network: what it sends": cut_one_way_out,
    "network: what it is sent": cut_one_way_in,
    "network: controller to brokers": cut_controller_from_brokers,
    "network: to ZooKeeper": cut_from_zookeeper,
    "network: controller to ZooKeeper": cut_controller_from_zookeeper,
    "pause of a leader, twice its session": pause_leader,
    "clocks jump": clocks_jump,
    "disk full": full_disk,
    "disk lost": lost_disk,
    "power cut of one": power_cut,
    "power cut of all": power_cut_of_all,
}
ON_REQUEST = frozenset({"ZooKeeper away for minutes"})
"""What takes too long to be among the others: done when it is named."""
FLUSHED_ONLY = frozenset({"power cut of all"})
"""What loses acknowledged records where they are not flushed first, as it may."""


@contextmanager
def _cut(cluster: HostCluster, seconds: float) -> Iterator[None]:
    """What is cut inside is healed after a while."""
    try:
        yield
        time.sleep(seconds)
    finally:
        cluster.network.heal()


def _cut_ports(cluster: HostCluster, victim: int) -> None:
    with _cut(cluster, LONG_S):
        cluster.network.cut_ports(victim, cluster.zookeeper.ports)


def _cut_power(cluster: HostCluster, victims: list[int], rng: Random) -> None:
    for each in victims:
        cluster.disks[each].cut_power()
    for each in victims:
        cluster.brokers[each].kill()
    for each in victims:
        cluster.disks[each].mount_again()
    time.sleep(rng.uniform(0, 3))
    for each in victims:
        cluster.brokers[each].spawn()
    for each in victims:
        cluster.brokers[each].wait_until_ready()


def _any(cluster: HostCluster, rng: Random) -> int:
    return rng.choice(list(cluster.brokers))


def _leader(cluster: HostCluster, rng: Random) -> BrokerProcess:
    return cluster.leader(rng.choice(("load-confluent", "load-aiokafka")), rng.randrange(2))


def _id_of(cluster: HostCluster, broker: BrokerProcess) -> int:
    return next(broker_id for broker_id, each in cluster.brokers.items() if each is broker)
