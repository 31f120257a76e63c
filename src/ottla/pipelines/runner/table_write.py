"""A micro-batch into a table: first its dead letters, then its rows, each once by the number of the micro-batch."""

from typing import Any, Protocol

from pyspark.sql import DataFrame

from ottla.pipelines.runner.topic_write import query_of, write_batch
from ottla.pipelines.spec.model import PipelineSpec, TableSink
from ottla.runtime.clock import Clock, SystemClock

_HOUR_MS = 3_600_000


class Table(Protocol):
    """A table that takes a micro-batch once."""

    def write(self, rows: DataFrame, batch_id: int) -> Any:
        """Add the rows, unless the micro-batch is in the table."""
        ...

    def committed_batch(self) -> int | None:
        """The newest micro-batch in it."""
        ...

    def compact(self, target_bytes: int) -> Any:
        """Make few large files of many small ones."""
        ...


class TableWrite:
    """What `foreachBatch` calls. A micro-batch that was written, in part or whole, is written again without harm."""

    def __init__(
        self, spec: PipelineSpec, sink: TableSink, bootstrap: str, *, has_letters: bool, clock: Clock | None = None
    ) -> None:
        self._spec = spec
        self._sink = sink
        self._bootstrap = bootstrap
        self._has_letters = has_letters
        self._table: Table | None = None
        self._clock = clock or SystemClock()
        self._compacted_ms = self._clock.monotonic_ms()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch."""
        query = query_of(batch)
        if self._table is None:
            self._table = table(self._spec, self._sink, query)
        if self._has_letters:
            self._write_both(batch, query, number, self._table)
        else:
            self._table.write(batch, number)
        self._compact(self._table)

    def _write_both(self, batch: DataFrame, query: str, number: int, table: Table) -> None:
        batch = batch.persist()
        try:
            self._write_letters(batch.where("_letter is not null").select("_letter.*"), query, number)
            table.write(batch.where("_good is not null").select("_good.*"), number)
        finally:
            batch.unpersist()

    def _compact(self, table: Table) -> None:
        """On schedule, between two micro-batches: the table has one writer at a time."""
        schedule, now_ms = self._sink.compact, self._clock.monotonic_ms()
        if schedule is not None and now_ms - self._compacted_ms >= schedule.every_ms:
            table.compact(schedule.target_bytes)
            self._compacted_ms = now_ms

    def _write_letters(self, letters: DataFrame, query: str, number: int) -> None:
        transactional_id = f"{self._spec.name}.{self._sink.name}.dead-letters"
        options = {"kafka.bootstrap.servers": self._bootstrap, "mode": "exactly-once"}
        write_batch(letters.coalesce(1), {**options, "transactionalId": transactional_id}, query, number)


def table(spec: PipelineSpec, sink: TableSink, query: str) -> Table:
    """The table of a sink, written by one query."""
    path = spec.path(sink.path)
    if sink.format == "parquet":
        from ottla.pipelines.tables import ParquetSink

        if sink.compact is not None:
            return ParquetSink(path, sink.partition_by, query, retain_ms=sink.compact.keep_ms)
        return ParquetSink(path, sink.partition_by, query)
    from ottla.pipelines.tables import DeltaSink

    if sink.compact is not None:
        return DeltaSink(path, sink.partition_by, query, retain_hours=-(-sink.compact.keep_ms // _HOUR_MS))
    return DeltaSink(path, sink.partition_by, query)
