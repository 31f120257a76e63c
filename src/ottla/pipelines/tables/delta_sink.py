"""Writes micro-batches to a Delta table, each exactly once, with `deltalake`, without a JAR."""

import errno
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ottla.native import crc32c
from ottla.pipelines.tables.spark_rows import EMPTY, NULL, check_fit, check_partitioning, full, write_files
from ottla.pipelines.tables.table_sink import Compacted, TableError, Written, local_directory
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.rng import Rng, SystemRng

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

STAGING: Final = "_ottla_staging"
"""The directory for unpublished files: readers and vacuum ignore names that begin with an underscore."""

RETAIN_HOURS: Final = 168
"""How long old versions can be read: one week, Delta's default."""


class DeltaSink:
    """One query's access to a Delta table, which its first batch creates. See `TableSink`.

    The batch number is the version of an application transaction (`txn` with the query id) in the commit that adds the
    rows. A table that has rows already, of another query or another program, is refused unless `beside` says that this
    query is to append to it.
    """

    def __init__(
        self,
        path: str,
        partition_by: Sequence[str] = (),
        query_id: str = "",
        *,
        beside: bool = False,
        retain_hours: int = RETAIN_HOURS,
        disk: Disk | None = None,
        rng: Rng | None = None,
    ) -> None:
        if not query_id:
            raise ValueError("a sink needs the id of its query")
        self._path = path
        self._root = Path(local_directory(path))
        self._partition_by = tuple(partition_by)
        self._query = query_id
        self._prefix = f"{crc32c(query_id.encode()):08x}"
        self._beside = beside
        self._retain_hours = retain_hours
        self._disk = disk or OsDisk()
        self._rng = rng or SystemRng()
        table = self._open()
        if table is not None:
            self._check(table)
        if self._disk.exists(self._root / STAGING):
            for name in self._disk.list_dir(self._root / STAGING):
                if name.startswith(f"{self._prefix}-"):
                    self._disk.remove_tree(self._root / STAGING / name)

    def committed_batch(self) -> int | None:
        """The newest batch of this query that is in the table; None before the first."""
        table = self._open()
        return None if table is None else table.transaction_version(self._query)

    def write(self, frame: "DataFrame", batch_id: int) -> Written:
        """Add the rows of a micro-batch, all or none; a batch that is in the table already is skipped."""
        table = self._open()
        committed = None if table is None else table.transaction_version(self._query)
        if table is not None and committed is not None and committed >= batch_id:
            return Written(0, 0, 0, table.version(), skipped=True)
        check_partitioning(self._path, frame.schema, self._partition_by)
        try:
            table = self._create(frame) if table is None else table
            self._check(table)
            return self._append(table, frame, batch_id)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
                raise full(self._path) from error
            raise

    def compact(self, target_bytes: int) -> Compacted:
        """Replace small files by larger ones in one commit; remove files that no version of the last week needs."""
        table = self._open()
        if table is None:
            return Compacted()
        done = table.optimize.compact(target_size=target_bytes)
        removed = table.vacuum(self._retain_hours, dry_run=False, enforce_retention_duration=False)
        return Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"]), len(removed))

    def _append(self, table: "DeltaTable", frame: "DataFrame", batch_id: int) -> Written:
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties, Transaction

        schema = _schema(table)
        check_fit(self._path, frame.schema, schema)
        staged = self._root / STAGING / f"{self._prefix}-{batch_id}-{self._rng.token_bytes(8).hex()}"
        added: list[AddAction] = []
        try:
            write_files(frame, staged, schema.names, self._partition_by, self._path)
            rows = 0
            for action, count in self._take(staged):
                added.append(action)
                rows += count
            try:
                table.create_write_transaction(
                    list(added),
                    "append",
                    table.schema(),
                    partition_by=list(self._partition_by) or None,
                    commit_properties=CommitProperties(app_transactions=[Transaction(self._query, batch_id)]),
                )
            except CommitFailedError:
                # Another driver of the same query, or a change of the table: which of them, the table says.
                now = self._open()
                committed = None if now is None else now.transaction_version(self._query)
                if now is None or committed is None or committed < batch_id:
                    raise
                self._remove(added)
                return Written(0, 0, 0, now.version(), skipped=True)
        except BaseException:
            committed = self.committed_batch()
            if committed is None or committed < batch_id:
                self._remove(added)
            raise
        finally:
            self._disk.remove_tree(staged)
        table.update_incremental()
        return Written(rows, len(added), sum(action.size for action in added), table.version())

    def _take(self, staged: Path) -> "Iterator[tuple[AddAction, int]]":
        """Move what was staged to where it stays, durably; not a part of the table before its log says so."""
        import pyarrow.parquet as pq
        from deltalake.transaction import AddAction

        number = 0
        for path in sorted(staged.rglob("*.parquet")):
            relative = path.relative_to(staged)
            if any(part.startswith(("_", ".")) for part in relative.parts):
                continue
            rows = pq.read_metadata(path).num_rows
            if not rows:
                continue
            # Not in directories of the values: Delta reads them from its log, and names that need no escaping.
            target = self._root / f"{staged.name}-{number}.parquet"
            number += 1
            self._disk.sync_file(path)
            self._disk.rename(path, target)
            action = AddAction(
                target.name,
                self._disk.size(target),
                partition_values(relative.parent),
                self._disk.modified_ms(target),
                True,
                json.dumps({"numRecords": rows}),
            )
            yield action, rows

    def _remove(self, added: "Sequence[AddAction]") -> None:
        for action in added:
            self._disk.remove(self._root / action.path)

    def _open(self) -> "DeltaTable | None":
        return _find(self._path, self._root, self._disk)

    def _create(self, frame: "DataFrame") -> "DeltaTable":
        from deltalake import DeltaTable, Schema

        self._disk.make_dir(self._root)
        return DeltaTable.create(
            str(self._root),
            Schema.from_json(frame.schema.toNullable().json()),
            mode="ignore",
            partition_by=list(self._partition_by) or None,
        )

    def _check(self, table: "DeltaTable") -> None:
        partitioned = tuple(table.metadata().partition_columns)
        if partitioned != self._partition_by:
            raise TableError(
                f"{self._path}: the table is partitioned by {', '.join(partitioned) or 'nothing'}, "
                f"this sink asks for {', '.join(self._partition_by) or 'nothing'}"
            )
        if not self._beside and table.transaction_version(self._query) is None and table.file_uris():
            raise TableError(
                f"{self._path}: the table has rows of another query or program. Choose another directory, or say that "
                "this query appends beside it"
            )


def schema_at(path: str) -> "StructType | None":
    """The schema of an existing table; None if there is none. Raises TableError."""
    table = _find(path, Path(local_directory(path)), OsDisk())
    return None if table is None else _schema(table)


def _schema(table: "DeltaTable") -> "StructType":
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def _find(path: str, root: Path, disk: Disk) -> "DeltaTable | None":
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        if disk.exists(root) and not disk.is_dir(root):
            raise TableError(f"{path}: a file; a table needs a directory")
        if not DeltaTable.is_deltatable(str(root)):
            names = set(disk.list_dir(root)) - {STAGING} if disk.exists(root) else ()
            if names:
                raise TableError(
                    f"{path}: holds other files ({min(names)}) and no Delta table; "
                    "choose a directory that is empty or not there yet"
                )
            return None
        return DeltaTable(str(root))
    except DeltaError as error:
        line = str(error).partition("\n")[0]
        raise TableError(f"{path}: its Delta log cannot be read: {line}") from error


def partition_values(directory: Path) -> dict[str, str | None]:
    """The partition values in the names of directories, as Spark writes them.

    >>> partition_values(Path("day=2024-01-01/carrier=A%2FB/gate=__HIVE_DEFAULT_PARTITION__"))
    {'day': '2024-01-01', 'carrier': 'A/B', 'gate': None}
    """
    values: dict[str, str | None] = {}
    for part in directory.parts:
        name, _, value = part.partition("=")
        values[unquote(name)] = None if value == NULL else "" if value == EMPTY else unquote(value)
    return values
