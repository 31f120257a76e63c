"""A stream whose entries are deleted shrinks on each of three brokers, whoever is killed while it cleans, and all have
the same stream in the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.redis_client import RawRedis
from tests.system.leaders import move_leaders
from tests.system.redis_address import redis_address as address
from tests.system.test_redis_space import SETTINGS, size_of, small_segments, state_of

ENTRIES = 30_000
ROUNDS = 3
CLUSTER_SETTINGS = {**SETTINGS, "default.replication.factor": "3", "min.insync.replicas": "2"}


def fill(client: RawRedis, first: int) -> None:
    """Entries from an id on, of which nine of ten are deleted again. A part is pending, or acknowledged."""
    last = first + ENTRIES
    for start in range(first, last, 1_000):
        client.pipeline([("XADD", "s", f"{number}-0", "a", "x" * 250) for number in range(start, start + 1_000)])
    for consumer in ("alice", "bob"):
        client.call("XREADGROUP", "GROUP", "g", consumer, "COUNT", "500", "STREAMS", "s", ">")
    client.call("XACK", "s", "g", *(f"{number}-0" for number in range(first, last, 7)))
    client.call("XCLAIM", "s", "g", "carol", "0", *(f"{number}-0" for number in range(first, first + 1_000, 3)))
    for start in range(first, last, 1_000):
        client.call("XDEL", "s", *(f"{number}-0" for number in range(start, start + 1_000) if number % 10))
    client.call("XTRIM", "s", "MINID", f"{first + ENTRIES // 10}-0")


def is_cleaning(broker: BrokerProcess, size: int) -> bool:
    directory = broker.data_dir / "s-0"
    return bool([*directory.glob("*.cleaned"), *directory.glob("*.swap")]) or size_of(directory) < size


@pytest.mark.long
def test_replicas_agree_when_leaders_are_killed_while_they_clean(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=CLUSTER_SETTINGS) as cluster:
        cluster.wait_until_registered()
        with RawRedis(address(cluster.brokers[1])) as client:
            client.call("XADD", "s", "1-0", "a", "x")
            client.call("XGROUP", "CREATE", "s", "g", "0")
        small_segments(cluster.brokers[1], "s")
        for round_number in range(ROUNDS):
            cluster.wait_until_in_sync("s")
            leader = cluster.leader("s")
            other = next(broker for broker in cluster.brokers.values() if broker is not leader)
            with RawRedis(address(other)) as client:
                fill(client, 2 + round_number * ENTRIES)
                before = state_of(client)
            size = size_of(leader.data_dir / "s-0")
            wait_until(lambda: is_cleaning(leader, size), "the leader cleans")  # noqa: B023
            leader.kill()
            with RawRedis(address(other)) as client:
                wait_until(lambda: state_of(client) == before, "the next leader has the same stream")  # noqa: B023
            leader.start()
        for broker in cluster.brokers.values():
            directory = broker.data_dir / "s-0"
            wait_until(lambda: size_of(directory) < 250 * ENTRIES, "a clean log")  # noqa: B023
        cluster.wait_until_in_sync("s")
        for _ in cluster.brokers:
            move_leaders(cluster, "s")
            for broker in cluster.brokers.values():
                with RawRedis(address(broker)) as client:
                    assert state_of(client) == before
