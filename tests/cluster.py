"""A cluster as a user has it: several `ottla serve` processes that share a metadata store, each killable by itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from ottla.client.errors import ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.brokers import ClusterDescription, describe_cluster
from ottla.client.io.cluster import Cluster as ClientsCluster
from ottla.client.io.cluster_metadata import ClusterMetadata, PartitionMetadata
from ottla.client.options import ClientOptions
from tests.broker_process import BrokerProcess

T = TypeVar("T")

LOOK_AGAIN_S = 0.05
"""Between two looks at what is waited for: a request each, beside which brokers on two cores get on."""


def wait_until(look: Callable[[], T | None], what: str, timeout_s: float = 180.0) -> T:
    """What `look` returns as soon as that is true; it may raise what clients raise. AssertionError after the time."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    seen: object = None
    while True:
        try:
            seen = found = look()
            if found:
                return found
        except ClientError as error:
            seen = error
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s; last seen: {seen!r}"
        pause.wait(LOOK_AGAIN_S)


@dataclass
class Cluster:
    """Brokers 1 to `count`, their data in DIRECTORY/1 and so on, their store where `metadata` says, or beside them."""

    directory: Path
    count: int = 3
    settings: dict[str, str] = field(default_factory=dict)
    metadata: str | None = None
    brokers: dict[int, BrokerProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        location = self.metadata or f"embedded:{self.directory / 'metadata'}"
        for node_id in range(1, self.count + 1):
            settings = {**self.settings, "node.id": str(node_id)}
            self.brokers[node_id] = BrokerProcess(self.directory / str(node_id), settings, metadata=location)

    def start(self) -> Cluster:
        """Start those that do not run, side by side; returns when all have said that they are ready."""
        started = [broker for broker in self.brokers.values() if not broker.is_running]
        for broker in started:
            broker.spawn()
        for broker in started:
            broker.wait_until_ready()
        return self

    def kill(self) -> None:
        """As a power cut of all machines, but for what the kernel still writes: SIGKILL, one right after the other."""
        running = [broker.process for broker in self.brokers.values() if broker.process is not None]
        for process in running:
            process.kill()
        for broker in self.brokers.values():
            broker.kill()

    def stop(self) -> list[int]:
        """Stop one after the other, as an operator would; the exit codes."""
        return [broker.stop() for broker in self.brokers.values()]

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        """All brokers that were ever started, whether or not they run now."""
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.port)

    @property
    def log(self) -> str:
        """What all brokers have said on stderr."""
        return "\n".join(
            f"--- broker {node_id}\n{broker.log_path.read_text()}"
            for node_id, broker in self.brokers.items()
            if broker.log_path.exists()
        )

    # What clients are told. All of these raise ClientError while nobody answers.

    def metadata_of(self, *topics: str, at: int | None = None) -> ClusterMetadata:
        """What a broker that runs tells clients, or one of them by its number."""
        where = self.brokers[at].bootstrap if at is not None else self._running
        with BlockingClient(where, api_timeout_ms=3_000, request_timeout_ms=3_000) as client:
            client.metadata(topics)
            return client.cluster()

    def serving(self, at: int) -> int:
        """How many brokers serve, as a broker knows that runs."""

        async def describe() -> ClusterDescription:
            options = ClientOptions.of(self.brokers[at].bootstrap, api_timeout_ms=3_000, request_timeout_ms=3_000)
            cluster = ClientsCluster(options, AsyncioIo())
            try:
                await cluster.connect()
                return await describe_cluster(cluster)
            finally:
                cluster.close()

        return sum(not each.is_fenced for each in asyncio.run(describe()).brokers)

    @property
    def _running(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.is_running)

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 3, **config: str) -> str:
        """Create a topic, and wait until its partitions have leaders; config keys are written with `_` for `.`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        with BlockingClient(self._running) as client:
            client.create_topic(NewTopic(name, partitions, replication_factor, settings))
        wait_until(lambda: self.has_leaders(name), f"leaders of {name}")
        return name

    def partition(self, topic: str, index: int = 0) -> PartitionMetadata:
        """One partition as clients are told of it."""
        found = self.metadata_of(topic).topics[topic].partition(index)
        assert found is not None, f"{topic} has no partition {index}"
        return found

    def has_leaders(self, topic: str) -> bool:
        """Whether every partition of a topic has a leader."""
        return all(each.leader >= 0 for each in self.metadata_of(topic).topics[topic].partitions)

    def is_in_sync(self, topic: str, count: int = 3) -> bool:
        """Whether every partition of a topic has a leader and `count` in-sync replicas."""
        return all(
            each.leader >= 0 and len(each.isr) >= count for each in self.metadata_of(topic).topics[topic].partitions
        )

    def wait_until_in_sync(self, topic: str, count: int = 3, timeout_s: float = 180.0) -> None:
        """Wait until `is_in_sync`."""
        wait_until(lambda: self.is_in_sync(topic, count), f"{count} in-sync replicas of {topic}", timeout_s)

    def leader(self, topic: str, index: int = 0) -> BrokerProcess:
        """The broker that leads a partition, once one does."""
        return self.brokers[
            wait_until(lambda: max(0, self.partition(topic, index).leader), f"a leader of {topic}-{index}")
        ]

    @property
    def controller(self) -> BrokerProcess:
        """The broker that decides, once one does."""
        return self.brokers[wait_until(lambda: max(0, self.metadata_of().controller_id), "a controller")]

    def wait_until_registered(self, count: int | None = None) -> None:
        """Wait until every running broker knows of `count` brokers that serve, all that run if not said."""
        wanted = sum(broker.is_running for broker in self.brokers.values()) if count is None else count
        running = [node_id for node_id, broker in self.brokers.items() if broker.is_running]
        wait_until(
            lambda: all(self.serving(at=node_id) == wanted for node_id in running),
            f"{wanted} brokers, seen by each",
        )
