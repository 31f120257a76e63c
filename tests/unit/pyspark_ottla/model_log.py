"""A cluster of lists: topics, partitions and records in memory, with the calls of a client that Spark's side makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from ottla.client.consuming.fetch import AbortedTransaction, FetchedBatches
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import ListedOffset, OffsetAt
from ottla.client.errors import BrokerError, OffsetOutOfRangeError, TopicNotFoundError
from ottla.client.io.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla.client.producing.produce import ProducedBatch
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records

NAMESPACE = UUID("12345678-1234-5678-1234-567812345678")


@dataclass
class ModelPartition:
    """Batches of records with their offsets; `start` moves when the oldest are deleted."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(self, *records: tuple, codec: int = 0) -> None:
        batch = build_batch(records, base_offset=self.end, codec=codec)
        self.batches.append((self.end, self.end + len(records) - 1, bytes(batch)))
        self.end += len(records)


@dataclass
class ModelLog:
    """What a `LogReader` and a `LogWriter` can do, and what happens to a log behind their backs."""

    partitions: dict[str, list[ModelPartition]] = field(default_factory=dict)
    generation: dict[str, int] = field(default_factory=dict)
    internal: set[str] = field(default_factory=set)
    aborted: tuple[AbortedTransaction, ...] = ()
    fetches: list[tuple[str, int, int, int]] = field(default_factory=list)
    produced: list[tuple[str, int, bytes]] = field(default_factory=list)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    refuses_commits: ErrorCode | None = None

    def create(self, topic: str, count: int = 1, records: int = 0, *, in_one_batch: int = 10) -> list[ModelPartition]:
        self.generation[topic] = self.generation.get(topic, 0) + 1
        self.partitions[topic] = [ModelPartition() for _ in range(count)]
        for partition in self.partitions[topic]:
            for first in range(0, records, in_one_batch):
                partition.append(*(record(offset) for offset in range(first, min(first + in_one_batch, records))))
        return self.partitions[topic]

    def delete(self, topic: str) -> None:
        del self.partitions[topic]

    def topic_id(self, topic: str) -> UUID:
        return uuid5(NAMESPACE, f"{topic} {self.generation[topic]}")

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        return {each: CommittedOffset(offset) for each, offset in self.committed.get(group_id, {}).items()}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refuses_commits is not None:
            raise BrokerError(self.refuses_commits, "refused")
        self.committed.setdefault(group_id, {}).update(offsets)

    def topics(self) -> dict[str, TopicMetadata]:
        return self.metadata(self.partitions)

    def metadata(self, topics: Iterable[str], *, refresh: bool = True) -> dict[str, TopicMetadata]:
        return {name: self._topic(name) for name in topics}

    def _topic(self, name: str) -> TopicMetadata:
        if name not in self.partitions:
            raise TopicNotFoundError(name)
        count = len(self.partitions[name])
        return TopicMetadata(
            name,
            self.topic_id(name),
            name in self.internal,
            tuple(PartitionMetadata(number, 0, 0, (0,), (0,)) for number in range(count)),
        )

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return {each: ListedOffset(self._offset_at(each, timestamp), -1, 0) for each, timestamp in at.items()}

    def _partition(self, each: TopicPartition) -> ModelPartition:
        if each.topic not in self.partitions or each.partition >= len(self.partitions[each.topic]):
            raise TopicNotFoundError(each.topic, each.partition)
        return self.partitions[each.topic][each.partition]

    def _offset_at(self, each: TopicPartition, timestamp: int) -> int:
        partition = self._partition(each)
        if timestamp == OffsetAt.EARLIEST:
            return partition.start
        if timestamp == OffsetAt.LATEST:
            return partition.end
        records = [
            one for _, _, batch in partition.batches for one in decode_records(batch, max_decompressed_bytes=1 << 20)
        ]
        return next((offset for offset, at, *_ in records if at >= timestamp and offset >= partition.start), -1)

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        each = TopicPartition(topic, partition)
        found = self._partition(each)
        if not found.start <= offset <= found.end:
            raise OffsetOutOfRangeError(topic, partition, offset)
        self.fetches.append((topic, partition, offset, max_bytes))
        data = b"".join(batch for _, last, batch in found.batches if last >= offset)
        first = next((len(batch) for _, last, batch in found.batches if last >= offset), 0)
        records = memoryview(data[: max(max_bytes, first)])
        return FetchedBatches(each, offset, records, found.end, found.end, found.start, self.aborted)

    def produce_raw(self, topic: str, partition: int, batches: bytes | bytearray | memoryview) -> ProducedBatch:
        found = self._partition(TopicPartition(topic, partition))
        self.produced.append((topic, partition, bytes(batches)))
        records = decode_records(batches, max_decompressed_bytes=1 << 24)
        found.append(*((at, key, value, headers) for _, at, key, value, headers in records))
        return ProducedBatch(TopicPartition(topic, partition), ErrorCode.NONE, None, found.end - len(records), -1)

    def send(self, topic_partition: TopicPartition, batch: bytearray) -> None:
        self.produce_raw(*topic_partition, batch)

    def flush(self) -> None:
        pass

    def abandon(self) -> None:
        pass

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [
            value
            for _, _, batch in self.partitions[topic][partition].batches
            for _, _, _, value, _ in decode_records(batch, max_decompressed_bytes=1 << 24)
        ]


def record(number: int, *, key: bytes | None = None) -> tuple:
    """Record `number`, with that value, stamped with as many seconds."""
    return (number * 1000, key, b"%d" % number, ())
