"""Partitions on the move between the data directories of a broker that dies meanwhile."""

import time
from collections.abc import Iterator
from random import Random

from ottla.client.admin.log_directories import alter_replica_log_directories, describe_log_directories
from ottla.client.errors import ClientError
from ottla.client.io.blocking_io import BlockingIo, run_blocking
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.model.topic_partition import TopicPartition
from workload.worker import Worker

BROKER_ID = 1
POLL_S = 0.05
MOVE_S = 5.0
"""How long it watches one move; the next one begins all the same."""


class DirectoryMover(Worker):
    """Moves one partition after the other, those of coordinators too, to a directory where it is not."""

    def __init__(self, bootstrap: str, rng: Random) -> None:
        super().__init__("directory moves")
        self._bootstrap = bootstrap
        self._rng = rng
        self.moved_count = 0
        """How many partitions were seen to arrive."""

    def run(self) -> None:
        """See the class."""
        options = ClientOptions.of(self._bootstrap, api_timeout_ms=1_000, request_timeout_ms=1_000)
        cluster = Cluster(options, BlockingIo())
        try:
            while not self.is_stopping:
                try:
                    self._move_one(cluster)
                except ClientError:  # the broker is dead, or does not have the partition yet
                    time.sleep(POLL_S)
        finally:
            cluster.close()

    def _move_one(self, cluster: Cluster) -> None:
        run_blocking(cluster.connect())
        places = dict(_places(cluster))
        paths = sorted(each.path for each in run_blocking(describe_log_directories(cluster, [BROKER_ID])))
        at_rest = sorted(each for each, (_, is_moving) in places.items() if not is_moving)
        if not at_rest or len(paths) < 2:
            time.sleep(POLL_S)
            return
        chosen = self._rng.choice(at_rest)
        target = self._rng.choice([path for path in paths if path != places[chosen][0]])
        outcome = run_blocking(alter_replica_log_directories(cluster, BROKER_ID, {chosen: target}))[chosen]
        if outcome is not None:
            raise outcome
        until = time.monotonic() + MOVE_S
        while not self.is_stopping and time.monotonic() < until:
            if dict(_places(cluster)).get(chosen) == (target, False):
                self.moved_count += 1
                return
            time.sleep(POLL_S)


def _places(cluster: Cluster) -> Iterator[tuple[TopicPartition, tuple[str, bool]]]:
    """Where each partition is, and whether it is on its way to another directory. Raises ClientError."""
    logs = [
        (each.topic_partition, directory.path, each.is_future)
        for directory in run_blocking(describe_log_directories(cluster, [BROKER_ID]))
        for each in directory.logs
    ]
    moving = {partition for partition, _, is_future in logs if is_future}
    for partition, path, is_future in logs:
        if not is_future:
            yield partition, (path, partition in moving)
