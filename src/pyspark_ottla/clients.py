"""One client per cluster and process, kept from task to task.

Spark reuses its Python workers and creates a new reader or writer object in each task. An open connection should
outlive a task, so the module holds it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.client.blocking import BlockingClient
from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset
from ottla.client.io.cluster_metadata import TopicMetadata
from ottla.client.producing.blocking_producer import BlockingProducer
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.connection import Connection

if TYPE_CHECKING:
    from pyspark_ottla.sink_ledger import SinkLedger


class _Cache(threading.local):
    """The clients of one thread, as a client serves one thread at a time."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.clients: dict[Connection, BlockingClient] = {}
        self.producers: dict[Connection, BlockingProducer] = {}
        self.ledgers: dict[tuple[Connection, str], SinkLedger] = {}


_cache = _Cache()


class Reader:
    """A client with one isolation level: it reads committed records only, or all records."""

    def __init__(self, client: BlockingClient, isolation: IsolationLevel, rack: str = "") -> None:
        self._client = client
        self._isolation = isolation
        self._rack = rack

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, asked for now."""
        return self._client.topics()

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """These topics, asked for now. Raises TopicNotFoundError."""
        return self._client.metadata(topics)

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at timestamps; the latest is the end of what this isolation level can read."""
        return self._client.list_offsets(at, isolation=self._isolation)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a consumer group."""
        return self._client.committed_offsets(group_id, partitions)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a consumer group without members."""
        self._client.commit_offsets(group_id, offsets)

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        """Record batches from an offset on, and which of them belong to aborted transactions."""
        return self._client.fetch_raw(
            topic,
            partition,
            offset,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            isolation=self._isolation,
            rack=self._rack,
        )


def reader_for(connection: Connection, isolation: IsolationLevel, rack: str = "") -> Reader:
    """This thread's client for that cluster, reading at that isolation level and from replicas in that rack."""
    return Reader(client_for(connection), isolation, rack)


def client_for(connection: Connection) -> BlockingClient:
    """The client of this thread for that cluster, made on first use. Never closed: it ends with the worker process."""
    if _cache.process != os.getpid():
        # After a fork the sockets are shared with the parent: leave them to it.
        _cache.process, _cache.clients, _cache.producers, _cache.ledgers = os.getpid(), {}, {}, {}
    client = _cache.clients.get(connection)
    if client is None:
        client = _cache.clients[connection] = BlockingClient(connection.bootstrap, **dict(connection.settings))
    return client


class ThreadClient:
    """The committed offsets of groups. Any thread may call it: each thread has its own client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a consumer group."""
        return client_for(self._connection).committed_offsets(group_id, partitions)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group without members."""
        client_for(self._connection).commit_offsets(group_id, offsets)


def producer_for(connection: Connection) -> BlockingProducer:
    """The idempotent producer of this thread for that cluster: one producer id for all the tasks of a process.

    One that has failed is replaced by one with another id.
    """
    client = client_for(connection)
    producer = _cache.producers.get(connection)
    if producer is None or producer.failure is not None:
        producer = _cache.producers[connection] = client.producer()
    return producer


@contextmanager
def ledger_for(connection: Connection, transactional_id: str) -> Iterator[SinkLedger]:
    """The ledger of a transactional id, kept from batch to batch as it remembers what it has read.

    Its topic must exist. After an error the next batch begins with a new ledger.
    """
    from pyspark_ottla.sink_ledger import SinkLedger

    client, name = client_for(connection), (connection, transactional_id)
    ledger = _cache.ledgers.pop(name, None)
    if ledger is None:
        ledger = SinkLedger(client, transactional_id)
        ledger.create()
    yield ledger
    _cache.ledgers[name] = ledger
