"""All partitions of a load get other replicas while they are written, read and copied (KIP-455).

at once      kafka-python asks for other replicas of everything ---------------> all is as asked for
cancelled    `ottla topic reassign`, throttled . . half of it done --> cancelled
                 what was done stays so, the rest is back, asked for again ----> all is as asked for
with a kill  `ottla topic reassign`, throttled . . some of it done --> kill -9 -> all is as asked for
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import TypeVar

from confluent_kafka import KafkaException
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, NoReassignmentInProgressError

from chaos.cluster_faults import kill_any
from chaos.replica_places import Place, Replicas, check_places, held, other_replicas, places, replicas_given_back
from ottla.simulation.anomaly import Violation
from ottla.simulation.history import Partition
from tests.cluster import Cluster
from workload.worker import PATIENCE_S

T = TypeVar("T")

BROKERS = 4
"""One more than there are replicas: each partition has somewhere to go."""
TOPICS = {"load-confluent": 50, "load-aiokafka": 50}
FILLED_BYTES = 24 << 20
"""What there is to copy at least, before anything is moved."""
FILLED_S = 10.0 * PATIENCE_S
SLOW_S = 20.0
"""How long it takes, about, what is throttled."""
RATE_MIN = 512 << 10
"""Bytes a second that a broker gets at least: more than what is written meanwhile to what it is to get."""
ATTEMPTS_MAX = 5
"""How often something is reassigned to be cancelled half way, if it was done each time before that."""
POLL_S = 0.2


class Reassigner:
    """Has everything in `topics` move, time after time. What is then not where it was to be is in `violations`."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self.violations: list[Violation] = []
        self.counts = {"partitions reassigned": 0, "reassignments cancelled": 0, "on their way at a kill": 0}
        self._cluster = cluster
        self._topics = topics

    def move(self, rng: Random) -> None:
        """As fast as it goes, by a client of others."""
        self._move_at_once(other_replicas(self._replicas(), self._cluster.brokers, rng))

    def move_and_cancel(self, rng: Random) -> None:
        """Cancelled half way and begun again."""
        for _ in range(ATTEMPTS_MAX):
            before = self._replicas()
            wanted = other_replicas(before, self._cluster.brokers, rng)
            self._begin_slowly(before, wanted)
            cancelled = self._cancel_when_left(len(wanted) // 2)
            self._wait_until_left(wanted, 0)
            self._take_throttle_back()
            back = {each: replicas_given_back(before[each], wanted[each]) for each in cancelled}
            self._settle(wanted | back)
            if cancelled:
                self._move_at_once(wanted)
                return
        raise AssertionError(f"{ATTEMPTS_MAX} times everything had moved before half of it could be cancelled")

    def move_and_kill(self, rng: Random) -> None:
        """Somebody dies in the middle of it, and comes back."""
        before = self._replicas()
        wanted = other_replicas(before, self._cluster.brokers, rng)
        self._begin_slowly(before, wanted)
        self.counts["on their way at a kill"] += self._wait_until_left(wanted, len(wanted) * 3 // 4)
        kill_any(self._cluster, rng)
        self._wait_until_left(wanted, 0)
        self._take_throttle_back()
        self._settle(wanted)

    def wait_until_filled(self) -> None:
        """Wait until there is something to copy."""

        def size() -> int:
            found = [each for path in self._directories.values() for each in path.glob("load-*/*.log")]
            return sum(_size(each) for each in found)

        replicas = len(next(iter(self._replicas().values())))
        self._until(lambda: size() >= replicas * FILLED_BYTES, "there is something to copy", FILLED_S)

    def _move_at_once(self, wanted: Replicas) -> None:
        def begin(admin: KafkaAdminClient) -> bool:
            asked = {TopicPartition(*each): list(replicas) for each, replicas in wanted.items()}
            refused = [error for error in admin.alter_partition_reassignments(asked).values() if error is not None]
            assert not refused, refused
            return True

        self._until(lambda: self._asked(begin), "reassignments begin")
        self._wait_until_left(wanted, 0)
        self._settle(wanted)

    def _cancel_when_left(self, count: int) -> set[Partition]:
        """Have what moves stay where it was, once it is no more than so many; what was not done before that."""
        with self._admin() as admin:
            self._until(lambda: len(moving(admin)) <= count, f"{count} partitions are on their way")
            asked = {TopicPartition(*each): None for each in moving(admin)}
            answers = admin.alter_partition_reassignments(asked) if asked else {}
        refused = {error for error in answers.values() if error not in (None, NoReassignmentInProgressError)}
        assert not refused, refused
        cancelled = {(each.topic, each.partition) for each, error in answers.items() if error is None}
        self.counts["reassignments cancelled"] += len(cancelled)
        return cancelled

    def _begin_slowly(self, before: Replicas, wanted: Replicas) -> None:
        """So that there is a middle of it."""
        incoming = dict.fromkeys(self._cluster.brokers, 0)
        for partition, replicas in wanted.items():
            log = self._directories[before[partition][0]] / f"{partition[0]}-{partition[1]}"
            size = sum(_size(each) for each in log.glob("*.log"))
            for broker_id in set(replicas) - set(before[partition]):
                incoming[broker_id] += size
        rate = max(RATE_MIN, int(max(incoming.values()) / SLOW_S))
        plan = self._cluster.directory / "plan.json"
        listed = [{"topic": each[0], "partition": each[1], "replicas": wanted[each]} for each in sorted(wanted)]
        plan.write_text(json.dumps({"version": 1, "partitions": listed}))
        self._ottla("topic", "reassign", "--plan", str(plan), "--execute", "--no-wait", "--throttle", str(rate))

    def _take_throttle_back(self) -> None:
        self._ottla("topic", "reassign", "--verify")

    def _settle(self, wanted: Replicas) -> None:
        """Wait until everything is where it is to be, on disk too, and note what is not in time."""
        found: list[Violation] = []

        def is_settled() -> bool:
            looked = places(self._cluster.bootstrap, self._topics), held(self._directories)
            on_their_way = self._asked(moving)
            found[:] = check_places(wanted, on_their_way or (), *looked)
            return on_their_way is not None and not found

        with suppress(TimeoutError):
            self._until(is_settled, "everything is where it is to be")
        self.violations += found
        self.counts["partitions reassigned"] += len(wanted)

    def _wait_until_left(self, wanted: Mapping[Partition, object], count: int) -> int:
        """Wait until no more than so many of the partitions are on their way; how many are."""
        left = [len(wanted)]

        def is_so() -> bool:
            found = self._asked(moving)
            if found is not None:
                left[0] = len(found & wanted.keys())
            return found is not None and left[0] <= count

        self._until(is_so, f"{count} of {len(wanted)} partitions are on their way")
        return left[0]

    def _replicas(self) -> Replicas:
        found: dict[Partition, Place] = {}

        def look() -> bool:
            found.update(places(self._cluster.bootstrap, self._topics))
            return True

        self._until(look, "clients are told where partitions are")
        return {partition: place.replicas for partition, place in found.items()}

    @property
    def _directories(self) -> dict[int, Path]:
        return {broker_id: broker.data_dir for broker_id, broker in self._cluster.brokers.items()}

    def _admin(self) -> "closing[KafkaAdminClient]":
        return closing(KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap.split(",")))

    def _asked(self, ask: Callable[[KafkaAdminClient], T]) -> T | None:
        """What the cluster answers to a new client; None when it does not."""
        try:
            with self._admin() as admin:
                return ask(admin)
        except KafkaError:
            return None

    def _until(self, holds: Callable[[], bool | None], what: str, timeout_s: float = 2 * PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(KafkaException):
                if holds():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s} s until {what}")
            time.sleep(POLL_S)

    def _ottla(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla.cli", *arguments]
        environment = {**os.environ, "OTTLA_BOOTSTRAP": self._cluster.bootstrap}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=2 * PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"


def moving(admin: KafkaAdminClient) -> set[Partition]:
    """What is on its way to other brokers."""
    return {(each.topic, each.partition) for each in admin.list_partition_reassignments()}


REASSIGNMENTS: dict[str, Callable[[Reassigner, Random], None]] = {
    "100 partitions reassigned": Reassigner.move,
    "100 partitions reassigned, cancelled half way, begun again": Reassigner.move_and_cancel,
    "100 partitions reassigned, kill -9 meanwhile": Reassigner.move_and_kill,
}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # moved away meanwhile
        return 0
