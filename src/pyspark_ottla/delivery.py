"""Rows on their way to the brokers: encoded in the worker, acknowledged before the task ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.errors import TopicNotFoundError
from ottla.native import encode_arrow
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.rng import Rng, SystemRng
from pyspark_ottla.log_client import LogWriter
from pyspark_ottla.options import does_not_exist
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class Delivered(WriterCommitMessage):
    """What one task wrote, all of it acknowledged by all replicas in sync."""

    records: int


class Delivery:
    """Sends rows and waits for the acknowledgement of each batch of records.

    A row is written at least once: a task that Spark tries again writes its rows again, and so does a request whose
    answer was lost. Rows of one task and partition keep their order.
    """

    def __init__(
        self,
        client: LogWriter,
        options: WriteOptions,
        columns: WriteColumns,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._columns = columns
        self._clock = clock or SystemClock()
        # Tasks begin at different partitions, so that many small ones do not fill the same.
        self._unkeyed_start = (rng or SystemRng()).randbelow(1 << 16)

    def send(self, batches: Iterable[Any]) -> Delivered:
        """All rows of some `pyarrow.RecordBatch`es.

        Raises ClientError for what a broker refuses, ValueError for a cell that no record can hold.
        """
        records = 0
        for batch in batches:
            for topic, rows in self._columns.by_topic(batch):
                records += self._send(topic, rows)
        return Delivered(records)

    def _send(self, topic: str, rows: Any) -> int:
        encoded = encode_arrow(
            rows,
            partition_count=self._partition_count(topic),
            now_ms=self._clock.now_ms(),
            codec=self._options.compression,
            max_batch_bytes=self._options.batch_bytes,
            unkeyed_start=self._unkeyed_start,
        )
        self._unkeyed_start += 1
        for partition, records, _ in encoded:
            self._client.produce_raw(topic, partition, records)
        return sum(count for _, _, count in encoded)

    def _partition_count(self, topic: str) -> int:
        try:
            return len(self._client.metadata([topic], refresh=False)[topic].partitions)
        except TopicNotFoundError:
            raise does_not_exist(f"topic {topic!r}") from None
