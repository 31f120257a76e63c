"""Three brokers of one kind over which topics are replicated, each a process of its own on this machine.

Kafka's are combined nodes, broker and controller, with a fixed quorum of all three. Ottla's share an embedded store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from benchmarks.beside_kafka import wire
from benchmarks.beside_kafka.brokers import KAFKA_VOTERS, Broker, Target
from tools.ports import free_ports

COUNT = 3
REPLICATED = {"min.insync.replicas": "2"}
"""The settings of topics whose records must be on two of the three before they are acknowledged."""
# Kafka's own defaults; those of one node in `brokers.py` are for one node.
KAFKA_INTERNAL_TOPICS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
PATIENCE_S = 900.0
ASK_S = 60.0
LOOK_AGAIN_S, LOOK_AGAIN_S_MAX = 0.02, 0.5
PROBE_TOPIC = "probe"


class Cluster:
    """Brokers 1 to 3; each can be killed and started again, and all of them."""

    def __init__(self, target: Target, directory: Path, kafka_class_path: Callable[[], str]) -> None:
        self.target = target
        self.directory = directory
        ports = free_ports(2 * COUNT)
        places = {number: (ports[2 * number - 2], ports[2 * number - 1]) for number in range(1, COUNT + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{controller}" for number, (_, controller) in places.items())
        several = {**KAFKA_INTERNAL_TOPICS, KAFKA_VOTERS: voters} if target.kind == "kafka" else {}
        self.brokers = {
            number: Broker(
                target,
                directory / str(number),
                {**several, "node.id": str(number)},
                kafka_class_path,
                port,
                controller_port,
                metadata=f"embedded:{directory / 'metadata'}" if target.kind == "ottla" else None,
            )
            for number, (port, controller_port) in places.items()
        }
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """All brokers, whether or not they run."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def pids(self) -> list[int]:
        """Of those that run."""
        return [broker.pid for broker in self.brokers.values() if broker.process is not None]

    def start(self) -> None:
        """All side by side; returns when a topic can be replicated over all of them.

        Raises:
            RuntimeError: one did not start; the message holds what it said.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        for broker in self.brokers.values():
            broker.spawn()
        for broker in self.brokers.values():
            self._wait_for_answer(broker)
        topic = NewTopic(PROBE_TOPIC, 1, COUNT)
        until = time.perf_counter() + PATIENCE_S
        while True:
            try:
                for creation in self.admin.create_topics([topic], request_timeout=ASK_S).values():
                    creation.result()
                break
            except KafkaException as reason:  # not all of them are registered
                if time.perf_counter() > until:
                    raise RuntimeError(f"{self.target.title} is no cluster of {COUNT}: {reason}") from reason
                time.sleep(LOOK_AGAIN_S)
        self.wait_until(PROBE_TOPIC, is_in_sync)

    def start_one(self, number: int) -> float:
        """A broker that was killed; seconds until it answers."""
        begun = self.brokers[number].spawn()
        self._wait_for_answer(self.brokers[number])
        return time.perf_counter() - begun

    def start_again(self) -> float:
        """All of them, side by side, without waiting for anything; when that was, by `time.perf_counter`."""
        self._admin = None  # it would wait longer and longer before it connects anew
        return min([broker.spawn() for broker in self.brokers.values()])

    def kill(self, *numbers: int) -> None:
        """As a crash does it: these, or all."""
        for number in numbers or self.brokers:
            self.brokers[number].kill()

    def remove(self) -> None:
        """What they wrote and said."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def settle(self) -> None:
        """Wait until all partitions of all topics are in sync. Raises TimeoutError as `wait_until` does."""
        for name, topic in self.admin.list_topics(timeout=ASK_S).topics.items():
            self.wait_until(name, is_in_sync, len(topic.partitions))

    def partitions(self, topic: str) -> list[PartitionMetadata]:
        """As clients are told of them."""
        return list(self.admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions.values())

    def wait_until(self, topic: str, holds: Callable[[PartitionMetadata], bool], count: int = 1) -> None:
        """Until it holds for each of the topic's partitions, of which there are `count`; looks again and again.

        Raises:
            TimeoutError: it does not, after a quarter of an hour.
        """
        until = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < until:
            begun = time.perf_counter()
            try:
                known = self.partitions(topic)
            except KafkaException:  # nobody answers yet
                known = []
            if len(known) == count and all(map(holds, known)):
                return
            # Ten thousand partitions are a large answer: half of the time is left to the brokers. The first answer
            # of brokers that start takes as long as they do.
            time.sleep(min(max(LOOK_AGAIN_S, time.perf_counter() - begun), LOOK_AGAIN_S_MAX))
        raise TimeoutError(f"{topic} is not as it should be after {PATIENCE_S:.0f} s")

    @property
    def admin(self) -> AdminClient:
        """A client that comes back soon to brokers that were away."""
        if self._admin is None:
            settings = {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
            self._admin = AdminClient(settings)
        return self._admin

    def _wait_for_answer(self, broker: Broker) -> None:
        try:
            wire.first_answer(broker.port).close()
        except (OSError, TimeoutError) as reason:
            self.kill()
            raise broker.did_not_start(reason) from reason


def is_led(partition: PartitionMetadata) -> bool:
    """Whether it has a leader."""
    return partition.leader >= 0


def is_in_sync(partition: PartitionMetadata) -> bool:
    """Whether it has a leader, and all of its replicas are in sync."""
    return partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
