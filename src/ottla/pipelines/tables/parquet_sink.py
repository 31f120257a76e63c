"""Writes micro-batches to a Parquet table, each exactly once."""

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.native import crc32c
from ottla.pipelines.tables.compaction import plan
from ottla.pipelines.tables.parquet_table import RETAIN_MS, ParquetTable, definition_of
from ottla.pipelines.tables.spark_rows import check_fit, check_partitioning, full, write_files
from ottla.pipelines.tables.table_sink import Compacted, TableError, Written, local_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COMPACTION = "compact"


class ParquetSink:
    """One query's access to a `ParquetTable`, which its first batch creates. See `TableSink`.

    A table that another query has written to is refused, unless `beside` says that this one is to append to it too.
    """

    def __init__(
        self,
        path: str,
        partition_by: Sequence[str] = (),
        query_id: str = "",
        *,
        beside: bool = False,
        retain_ms: int = RETAIN_MS,
    ) -> None:
        if not query_id:
            raise ValueError("a sink needs the id of its query")
        self._path = path
        self._partition_by = tuple(partition_by)
        self._query = query_id
        self._prefix = f"{crc32c(query_id.encode()):08x}"
        self._beside = beside
        self._retain_ms = retain_ms
        local_directory(path)
        self._table = ParquetTable.find(path)
        if self._table is not None:
            self._check(self._table)
            self._table.discard_all(self._prefix)

    def committed_batch(self) -> int | None:
        """The newest batch of this query that is in the table; None before the first."""
        if self._table is None:
            return None
        self._table.refresh()
        return self._table.snapshot.batches.get(self._query)

    def write(self, frame: "DataFrame", batch_id: int) -> Written:
        """Add the rows of a micro-batch, all or none; a batch that is in the table already is skipped."""
        from pyspark.sql.types import StructType

        committed = self.committed_batch()
        if self._table is not None and committed is not None and committed >= batch_id:
            return Written(0, 0, 0, self._table.snapshot.version, skipped=True)
        check_partitioning(self._path, frame.schema, self._partition_by)
        try:
            if self._table is None:
                definition = definition_of(frame.schema.toNullable().jsonValue(), self._partition_by)
                self._table = ParquetTable.create(self._path, definition)
            self._check(self._table)
            schema = StructType.fromJson(self._table.definition.schema)
            check_fit(self._path, frame.schema, schema)
            staged = self._table.stage(f"{self._prefix}-{batch_id}")
            try:
                write_files(frame, staged, schema.names, self._partition_by, self._path)
                return self._table.publish(staged, query=self._query, batch=batch_id)
            except BaseException:
                self._table.discard(staged)
                raise
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise full(self._path) from error
            raise

    def compact(self, target_bytes: int) -> Compacted:
        """Merge small files into larger ones, in one version, and remove old files that are no longer needed."""
        from pyspark.sql import SparkSession

        # Its own view of the table: a batch may be written meanwhile.
        table = ParquetTable.find(self._path)
        if table is None:
            return Compacted()
        groups = plan(table.snapshot.files.values(), target_bytes)
        made = 0
        if groups:
            spark = SparkSession.active()
            names = [field["name"] for field in table.definition.schema["fields"]]
            frames = [table.read_files(spark, [file.path for file in group]).coalesce(1) for group in groups]
            rows = frames[0]
            for frame in frames[1:]:
                rows = rows.unionAll(frame)
            staged = table.stage(_COMPACTION)
            try:
                write_files(rows, staged, names, table.definition.partition_by, self._path)
                written = table.publish(staged, removed=[file.path for group in groups for file in group])
            except BaseException:
                table.discard(staged)
                raise
            made = 0 if written.skipped else written.files
        removed = table.remove_old(retain_ms=self._retain_ms)
        return Compacted(sum(map(len, groups)) if made else 0, made, removed)

    def _check(self, table: ParquetTable) -> None:
        if table.definition.partition_by != self._partition_by:
            raise TableError(
                f"{self._path}: the table is partitioned by {_columns(table.definition.partition_by)}, "
                f"this sink asks for {_columns(self._partition_by)}"
            )
        others = table.snapshot.batches.keys() - {self._query}
        if others and not self._beside and self._query not in table.snapshot.batches:
            raise TableError(
                f"{self._path}: another query ({min(others)}) writes to this table; the checkpoint is not the one it "
                "was written with. Choose another directory, or say that this query appends beside it"
            )


def _columns(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
