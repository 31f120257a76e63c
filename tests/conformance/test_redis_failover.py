"""ioredis at brokers whose leaders are killed, or stand still: nothing that it was told is lost."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import Cluster, wait_until
from tests.conformance.clients.peer_programs import ioredis_program
from tests.conformance.needed_peers import needed_peer
from tests.redis_client import RawRedis
from tests.system.redis_address import redis_address
from tests.system.test_redis_cluster import SETTINGS, Id, check, id_of

pytestmark = [pytest.mark.peer, pytest.mark.long]


class IoredisLoad:
    """A writer and a worker at one broker, and what they were told."""

    def __init__(self, program: Path, address: tuple[str, int], key: str, consumer: str) -> None:
        self.added: list[list[Id]] = [[]]
        self.taken: dict[str, set[Id]] = {consumer: set()}
        self.acknowledged: set[Id] = set()
        self._consumer = consumer
        command = ["node", str(program), address[0], str(address[1]), key, "g", consumer]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, texts = json.loads(line)
            ids = [id_of(each.encode()) for each in texts]
            if what == "added":
                self.added[0] += ids
            elif what == "taken":
                self.taken[self._consumer].update(ids)
            else:
                self.acknowledged.update(ids)

    def end(self) -> None:
        """Stop, and have all that it was told."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(120) == 0
        self._reader.join()

    def has_gone_on(self) -> Callable[[], bool]:
        """Whether it has got further since."""
        added, acknowledged = len(self.added[0]), len(self.acknowledged)
        return lambda: len(self.added[0]) > added + 50 and len(self.acknowledged) > acknowledged + 20


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_ioredis_loses_nothing_when_the_leader_fails(tmp_path: Path, fault: str) -> None:
    with needed_peer():
        program = ioredis_program().parent / "load.js"
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.wait_until_registered()
        with RawRedis(redis_address(cluster.brokers[1])) as client:
            client.call("XGROUP", "CREATE", "jobs", "g", "0", "MKSTREAM")
        loads: list[IoredisLoad] = []
        for round_number in range(2):
            cluster.wait_until_in_sync("jobs")
            leader = cluster.leader("jobs")
            others = [each for each in cluster.brokers.values() if each is not leader]
            running = [
                IoredisLoad(program, redis_address(broker), "jobs", f"c{round_number}-{number}")
                for number, broker in enumerate([*others, leader])
            ]
            loads += running
            try:
                for load in running:
                    wait_until(load.has_gone_on(), "it works")
                leader.kill() if fault == "killed" else leader.pause()
                for load in running[:2]:
                    wait_until(load.has_gone_on(), "it goes on at the others")
                if fault == "paused":
                    leader.resume()
                    wait_until(running[2].has_gone_on(), "it goes on where the broker stood still")
            finally:
                for load in running:
                    load.end()
            if fault == "killed":
                leader.start()
        cluster.wait_until_in_sync("jobs")
        for broker_id in cluster.brokers:
            check(cluster, broker_id, "jobs", loads)
