"""The interfaces of clients that reads and writes need. Tests implement them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import ListedOffset
from ottla.client.io.cluster_metadata import TopicMetadata
from ottla.client.producing.produce import ProducedBatch
from ottla.model.topic_partition import TopicPartition


class GroupOffsets(Protocol):
    """The offsets that consumer groups have committed. Every call blocks until it is answered."""

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or for all."""
        ...

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group without members. Raises BrokerError."""
        ...


class LogReader(GroupOffsets, Protocol):
    """The client of a read, such as `pyspark_ottla.clients.Reader`. Calls block."""

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, asked for now."""
        ...

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """These topics, asked for now. Raises TopicNotFoundError."""
        ...

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at timestamps in milliseconds, or at the special points of `OffsetAt`."""
        ...

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        """Record batches from an offset on. Raises OffsetOutOfRangeError and TopicNotFoundError."""
        ...


class LogWriter(Protocol):
    """The client of a write, such as `ottla.client.blocking.BlockingClient`. Calls block."""

    def metadata(self, topics: Iterable[str], *, refresh: bool) -> dict[str, TopicMetadata]:
        """These topics. Raises TopicNotFoundError."""
        ...

    def produce_raw(self, topic: str, partition: int, batches: bytes | bytearray | memoryview) -> ProducedBatch:
        """Append record batches, acknowledged by all replicas in sync. Raises ClientError."""
        ...
