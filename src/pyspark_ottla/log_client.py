"""What reading and writing ask of a client. `ottla.client.blocking.BlockingClient` is one; tests bring their own."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.client.cluster_metadata import TopicMetadata
from ottla.client.fetch import FetchedBatches
from ottla.client.offsets import ListedOffset
from ottla.client.produce import ProducedBatch
from ottla.model.topic_partition import TopicPartition


class LogClient(Protocol):
    """The few calls to a cluster that a Spark job makes; each blocks until it is answered."""

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, asked for now."""
        ...

    def metadata(self, topics: Iterable[str], *, refresh: bool = True) -> dict[str, TopicMetadata]:
        """These topics. Raises TopicNotFoundError."""
        ...

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at timestamps in milliseconds, or at the special points of `OffsetAt`."""
        ...

    def fetch_raw(
        self, topic: str, partition: int, offset: int, *, max_bytes: int = ..., max_wait_ms: int = ...
    ) -> FetchedBatches:
        """Record batches from an offset on."""
        ...

    def produce_raw(self, topic: str, partition: int, batches: bytes | bytearray | memoryview) -> ProducedBatch:
        """Append record batches, acknowledged by all replicas."""
        ...
