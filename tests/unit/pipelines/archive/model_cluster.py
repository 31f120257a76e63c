"""A cluster in memory with the calls that archiving makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.client.consuming.fetch import AbortedTransaction, FetchedBatches
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.client.errors import OffsetOutOfRangeError
from ottla.client.io.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch

TOPIC_ID = UUID(int=7)


@dataclass
class ModelCluster:
    """One topic `t`, whose partitions, of which there is one, have the same records."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    aborted: tuple[AbortedTransaction, ...] = ()
    start: int = 0
    end: int = 0
    topic_id: UUID = TOPIC_ID
    cluster_id: str = "model"
    settings: dict[str, str] = field(default_factory=lambda: {"retention.ms": "-1"})
    positions: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    expires_on_fetch: int = 0
    partitions: int = 1
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    """With which everything has to be read."""

    def append(self, *records: tuple, offsets: list[int] | None = None, epoch: int = 0, **batch: Any) -> None:
        base = offsets[0] if offsets else self.end
        data = build_batch(records, base_offset=base, offsets=offsets, leader_epoch=epoch, **batch)
        last = offsets[-1] if offsets else base + len(records) - 1
        self.batches.append((base, last, bytes(data)))
        self.end = last + 1

    def cluster(self):
        return SimpleNamespace(cluster_id=self.cluster_id)

    def topics(self) -> dict[str, TopicMetadata]:
        partitions = tuple(PartitionMetadata(number, 0, 0, (0, 1), (0,)) for number in range(self.partitions))
        internal = TopicMetadata("__internal", TOPIC_ID, True, partitions)
        return {"t": TopicMetadata("t", self.topic_id, False, partitions), "__internal": internal}

    def topic_settings(self, topic: str) -> dict[str, str]:
        return self.settings

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel
    ) -> dict[TopicPartition, ListedOffset]:
        assert isolation is self.isolation
        return {
            place: ListedOffset(self.start if when == OffsetAt.EARLIEST else self.end, -1, 0)
            for place, when in at.items()
        }

    def fetch_raw(
        self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int, isolation: IsolationLevel
    ) -> FetchedBatches:
        assert isolation is self.isolation
        self.start = max(self.start, self.expires_on_fetch)
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRangeError(topic, partition, offset)
        # One batch an answer, so that reading goes on and on.
        data = next((data for _, last, data in self.batches if last >= offset), b"")
        place = TopicPartition(topic, partition)
        return FetchedBatches(place, offset, memoryview(data), self.end, self.end, self.start, self.aborted)

    def group_ids(self) -> list[str]:
        return ["g"]

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        return self.positions
