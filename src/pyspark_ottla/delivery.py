"""Sends the rows of a task: encoded in the worker, acknowledged before the task ends."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.errors import TopicNotFoundError
from ottla.model.topic_partition import TopicPartition
from ottla.native import encode_arrow
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.rng import Rng, SystemRng
from pyspark_ottla.log_client import LogWriter
from pyspark_ottla.options import does_not_exist
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import WriteOptions

CHUNK_BYTES = 4_000_000
"""Rows are encoded in pieces of this size: Spark's batches are small if rows go to many partitions."""


@dataclass(frozen=True, slots=True)
class Delivered(WriterCommitMessage):
    """What one task wrote; all of it is acknowledged by all in-sync replicas."""

    records: int


@dataclass(frozen=True, slots=True)
class Refused(WriterCommitMessage):
    """Why the rows of a task can never be written. The driver fails the write with this reason."""

    reason: str


class BatchProducer(Protocol):
    """A producer of encoded batches, such as `ottla.client.producing.blocking_producer.BlockingProducer`."""

    def send(self, topic_partition: TopicPartition, batch: bytearray) -> None:
        """Take one record batch. Raises ClientError."""
        ...

    def flush(self) -> None:
        """Return when all sent batches are acknowledged. Raises ClientError."""
        ...


@dataclass
class Delivery:
    """Encodes rows and hands the batches to a producer. Rows of one task and partition keep their order."""

    client: LogWriter
    producer: BatchProducer
    options: WriteOptions
    columns: WriteColumns
    unkeyed: int | None = None
    """The partition (modulo their number) of rows without a key; None spreads them over all partitions."""
    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)

    def __post_init__(self) -> None:
        # Tasks begin at different partitions, so that many small ones do not fill the same.
        self._unkeyed_start = self.rng.randbelow(1 << 16)

    def send(self, batches: Iterable[Any]) -> int:
        """All rows of some `pyarrow.RecordBatch`es, appended when this returns; how many there were.

        Raises OptionError or ValueError for rows that can never be written, ClientError for what a broker refuses.
        """
        records = 0
        for chunk in chunks(batches):
            for topic, rows in self.columns.by_topic(chunk):
                records += self._send(topic, rows)
        self.producer.flush()
        return records

    def _send(self, topic: str, rows: Any) -> int:
        count = partition_count(self.client, topic)
        if self.unkeyed is not None and not {"key", "partition"} & set(rows.schema.names):
            partition = pa.repeat(pa.scalar(self.unkeyed % count, pa.int32()), rows.num_rows)
            rows = rows.append_column("partition", partition)
        encoded = encode_arrow(
            rows,
            partition_count=count,
            now_ms=self.clock.now_ms(),
            codec=self.options.compression,
            max_batch_bytes=self.options.batch_bytes,
            unkeyed_start=self._unkeyed_start,
        )
        self._unkeyed_start += 1
        for partition, records, _ in encoded:
            self.producer.send(TopicPartition(topic, partition), records)
        return sum(records for _, _, records in encoded)


def partition_count(client: LogWriter, topic: str) -> int:
    """How many partitions a topic has. Raises OptionError when it does not exist."""
    try:
        return len(client.metadata([topic], refresh=False)[topic].partitions)
    except TopicNotFoundError:
        raise does_not_exist(f"topic {topic!r}") from None


def chunks(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows in `pyarrow.RecordBatch`es of about `CHUNK_BYTES`; empty ones are left out."""
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[Any]) -> list[Any]:
    if len(batches) < 2:
        return batches
    joined: list[Any] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
