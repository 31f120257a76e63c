"""Writes a micro-batch to a table: first its dead letters, then its rows, each once."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ottla.pipelines.compiler.sink_rows import GOOD, LETTER
from ottla.pipelines.compiler.sources import connection_options
from ottla.pipelines.runner.beginning import beginning_of_sink, letters_id
from ottla.pipelines.runner.checkpoint import directory_of
from ottla.pipelines.runner.compaction_schedule import CompactionSchedule
from ottla.pipelines.runner.failure import reason_of
from ottla.pipelines.runner.topic_write import batch_size, query_of, write_batch
from ottla.pipelines.spec.model import PipelineSpec, TableSink
from ottla.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from ottla.pipelines.tables.table_sink import Written

_HOUR_MS = 3_600_000

logger = logging.getLogger(__name__)


def unfenced() -> None:
    """Does nothing: a fence for checkpoints that no other driver can take."""


class Table(Protocol):
    """A table that stores each micro-batch once."""

    def write(self, rows: DataFrame, batch_id: int) -> "Written":
        """Add the rows, unless the micro-batch is in the table."""
        ...

    def committed_batch(self) -> int | None:
        """The newest micro-batch in the table."""
        ...

    def compact(self, target_bytes: int) -> Any:
        """Merges small files into larger ones."""
        ...


class TableWrite:
    """The function for `foreachBatch`. Can be repeated: a micro-batch that was written, even in part, is stored once.

    `letter_bytes_max` is the largest batch that the topic of dead letters takes; None where there is none.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        sink: TableSink,
        bootstrap: str,
        *,
        letter_bytes_max: int | None,
        clock: Clock | None = None,
        fence: Callable[[], None] = unfenced,
    ) -> None:
        self._fence = fence
        self._spec = spec
        self._sink = sink
        self._bootstrap = bootstrap
        self._letter_bytes_max = letter_bytes_max
        self._table: Table | None = None
        self._schedule: CompactionSchedule | None = None
        if sink.compact is not None:
            directory = directory_of(spec, sink)
            kept = None if "://" in directory else Path(directory)
            self._schedule = CompactionSchedule(kept, sink.compact.every_ms, clock or SystemClock())

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch. Raises FencedError where another driver has the checkpoint."""
        self._fence()
        query = query_of(batch)
        if self._table is None:
            self._table = table(self._spec, self._sink, query)
        if self._letter_bytes_max is not None:
            self._write_both(batch, query, number, self._table, self._letter_bytes_max)
        else:
            self._written(self._table, batch, batch, number)
        self._compact(self._table)

    def _write_both(self, batch: DataFrame, query: str, number: int, table: Table, bytes_max: int) -> None:
        batch = batch.persist()
        try:
            letters = batch.where(f"{LETTER} is not null").select(f"{LETTER}.*")
            if not letters.isEmpty():
                self._write_letters(letters, query, number, bytes_max)
            self._written(table, batch.where(f"{GOOD} is not null").select(f"{GOOD}.*"), batch, number)
        finally:
            batch.unpersist()

    def _written(self, table: Table, rows: DataFrame, batch: DataFrame, number: int) -> None:
        if table.write(rows, number).skipped:
            # Rows are counted where they pass: the audit of a micro-batch that runs again is that of the first run.
            batch.write.format("noop").mode("overwrite").save()

    def _compact(self, table: Table) -> None:
        """On schedule, after a micro-batch: the table has one writer at a time. The micro-batch is in the table, so a
        compaction that fails ends nothing; the next one takes up the same files.
        """
        if self._schedule is None or self._sink.compact is None or not self._schedule.is_due():
            return
        try:
            table.compact(self._sink.compact.target_bytes)
        except Exception as error:
            line = reason_of(f"{type(error).__name__}: {error}")
            logger.warning("%s.%s: the table was not compacted: %s", self._spec.name, self._sink.name, line)
        self._schedule.done()

    def _write_letters(self, letters: DataFrame, query: str, number: int, bytes_max: int) -> None:
        options = {**connection_options(self._bootstrap), "mode": "exactly-once", **batch_size({}, bytes_max)}
        options["transactionalId"] = letters_id(self._spec, self._sink.name)
        write_batch(letters.coalesce(1), options, query, number)


def schema_of(spec: PipelineSpec, sink: TableSink) -> StructType | None:
    """The schema of an existing Delta table, whose columns may be required; None otherwise. Raises TableError."""
    if sink.format != "delta":
        return None
    from ottla.pipelines.tables.delta_sink import schema_at

    return schema_at(spec.path(sink.path))


def table(spec: PipelineSpec, sink: TableSink, query: str) -> Table:
    """The table of a sink, written by one query."""
    path = spec.path(sink.path)
    # A checkpoint that was begun anew is another query, which goes on with the table of the one before.
    beside = beginning_of_sink(spec, sink) is not None
    keep_ms = None if sink.compact is None else sink.compact.keep_ms
    if sink.format == "parquet":
        from ottla.pipelines.tables import ParquetSink
        from ottla.pipelines.tables.parquet_table import RETAIN_MS

        retain_ms = RETAIN_MS if keep_ms is None else keep_ms
        return ParquetSink(path, sink.partition_by, query, beside=beside, retain_ms=retain_ms)
    from ottla.pipelines.tables import DeltaSink
    from ottla.pipelines.tables.delta_sink import RETAIN_HOURS

    retain_hours = RETAIN_HOURS if keep_ms is None else -(-keep_ms // _HOUR_MS)
    return DeltaSink(path, sink.partition_by, query, beside=beside, retain_hours=retain_hours)
