"""A directory of Parquet files with a manifest, as described in `manifest`."""

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipelines.tables.manifest import (
    Commit,
    DataFile,
    Snapshot,
    TableDefinition,
    decode,
    encode,
    version_name,
    version_of,
)
from ottla.pipelines.tables.spark_rows import EMPTY
from ottla.pipelines.tables.table_sink import TableError, Written, local_directory
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.rng import Rng, SystemRng

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

MANIFEST: Final = "_ottla"
"""The directory of the manifest: Spark and pyarrow ignore names that begin with an underscore."""

COMMITS_PER_SNAPSHOT: Final = 50
COMMITS_KEPT: Final = 100
"""The number of commits kept before the newest snapshot, so that a paused writer cannot reuse their names."""

RETAIN_MS: Final = 60 * 60 * 1000
"""How long a removed data file stays, for readers that listed the files before."""

UNCOMMITTED_MS: Final = 24 * 60 * 60 * 1000
"""The age at which uncommitted files are removed."""

_NO_LINKS: Final = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class ParquetTable:
    """A table in a directory. Any number of processes may read and write it.

    A reader takes `files()`: these stay as they are for an hour after they are in the table no more. Whoever reads the
    directory itself, as `spark.read.parquet` does, never sees a file that is not committed; while a version is being
    linked into place it may see a part of it, and while files are compacted it may miss rows, never see one twice.

    After a crash at any point the table is what its commits say; `open` puts the links right.
    """

    def __init__(self, path: Path, definition: TableDefinition, disk: Disk, clock: Clock, rng: Rng) -> None:
        self.path = path
        self.definition = definition
        self.snapshot = Snapshot()
        self._manifest = path / MANIFEST
        self._disk = disk
        self._clock = clock
        self._rng = rng

    @classmethod
    def open(
        cls, path: str, *, disk: Disk | None = None, clock: Clock | None = None, rng: Rng | None = None
    ) -> "ParquetTable":
        """Opens an existing table. Raises TableError."""
        directory = Path(local_directory(path))
        found = cls._find(directory, disk or OsDisk(), clock or SystemClock(), rng or SystemRng())
        if found is None:
            raise TableError(f"{path}: there is no table here yet")
        return found

    @classmethod
    def find(
        cls, path: str, *, disk: Disk | None = None, clock: Clock | None = None, rng: Rng | None = None
    ) -> "ParquetTable | None":
        """The table, or None if the directory is free. Raises TableError if it contains something else."""
        directory = Path(local_directory(path))
        return cls._find(directory, disk or OsDisk(), clock or SystemClock(), rng or SystemRng())

    @classmethod
    def create(
        cls,
        path: str,
        definition: TableDefinition,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> "ParquetTable":
        """Creates the table, or opens one that was created concurrently. Raises TableError and OSError."""
        table = cls(
            Path(local_directory(path)), definition, disk or OsDisk(), clock or SystemClock(), rng or SystemRng()
        )
        for name in ("commits", "snapshots", "files", "staging"):
            table._disk.make_dir(table._manifest / name)
        table._link_new(table._manifest / "table.json", encode(definition))
        return cls.open(path, disk=disk, clock=clock, rng=rng)

    @classmethod
    def _find(cls, directory: Path, disk: Disk, clock: Clock, rng: Rng) -> "ParquetTable | None":
        definition = directory / MANIFEST / "table.json"
        try:
            data = disk.read_bytes(definition)
        except NotADirectoryError:
            raise TableError(f"{directory}: a file; a table needs a directory") from None
        except FileNotFoundError:
            names = set(disk.list_dir(directory)) - {MANIFEST} if disk.exists(directory) else ()
            if names:
                raise TableError(
                    f"{directory}: holds other files ({min(names)}) and no manifest of a table; "
                    "choose a directory that is empty or not there yet"
                ) from None
            return None
        table = cls(directory, decode(data, TableDefinition, str(definition)), disk, clock, rng)
        table.repair()
        return table

    def files(self) -> list[str]:
        """The data files of the version of the last `refresh`, as absolute paths, sorted."""
        return [str(self._manifest / "files" / path) for path in sorted(self.snapshot.files)]

    def read(self, spark: "SparkSession") -> "DataFrame":
        """The committed rows of the newest version, with their original columns and types."""
        self.refresh()
        return self.read_files(spark, self.snapshot.files)

    def read_files(self, spark: "SparkSession", paths: Iterable[str]) -> "DataFrame":
        """The rows of some data files, by their paths in the manifest."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(self.definition.schema)
        base = self._manifest / "files"
        names = [f"file://{base / path}" for path in paths]
        if not names:
            return spark.createDataFrame([], schema)
        reader = spark.read.schema(schema).option("basePath", f"file://{base}")
        rows = reader.parquet(*names).select(*[f"`{name}`" for name in schema.names])
        texts = {name for name in self.definition.partition_by if schema[name].dataType.typeName() == "string"}
        return rows.replace(EMPTY, "", [*texts]) if texts else rows

    def refresh(self) -> None:
        """Reads the newest version. Raises TableError for a damaged manifest."""
        snapshots = self._manifest / "snapshots"
        behind = not self._disk.exists(self._commit_path(self.snapshot.version + 1))
        newest = max((version_of(name) or 0 for name in self._disk.list_dir(snapshots)), default=0) if behind else 0
        if newest > self.snapshot.version:
            path = snapshots / version_name(newest)
            self.snapshot = decode(self._disk.read_bytes(path), Snapshot, str(path))
        while True:
            path = self._commit_path(self.snapshot.version + 1)
            try:
                data = self._disk.read_bytes(path)
            except FileNotFoundError:
                break
            try:
                self.snapshot = self.snapshot.after(decode(data, Commit, str(path)))
            except ValueError as error:
                raise TableError(f"{path}: {error}; restore the table's manifest from a copy") from None
        later = [version_of(name) or 0 for name in self._disk.list_dir(self._manifest / "commits")]
        if max(later, default=0) > self.snapshot.version + 1 and not self._disk.exists(
            self._commit_path(self.snapshot.version + 1)
        ):
            raise TableError(
                f"{self.path}: version {self.snapshot.version + 1} is missing from the table's manifest, and later "
                "ones are there; restore the manifest from a copy"
            )

    def stage(self, prefix: str) -> Path:
        """The path of a new, unique directory for rows to publish."""
        return self._manifest / "staging" / f"{prefix}-{self._rng.token_bytes(8).hex()}"

    def discard(self, staged: Path) -> None:
        """Removes a staged directory that will not be published."""
        self._disk.remove_tree(staged)

    def discard_all(self, prefix: str) -> None:
        """Removes all unpublished staged directories with a prefix."""
        staging = self._manifest / "staging"
        for name in self._disk.list_dir(staging):
            if name.startswith(f"{prefix}-"):
                self._disk.remove_tree(staging / name)

    def publish(
        self, staged: Path, *, query: str | None = None, batch: int = -1, removed: Iterable[str] = ()
    ) -> Written:
        """Make the files of a staged directory a version of the table, with one link; `removed` leave it.

        With a query, a batch that it has committed already is dropped: `skipped`. Without, the rows must stay the same,
        and `skipped` says that one of the removed files was not there any more. Raises TableError and OSError: then
        nothing was published, unless the message says so.
        """
        removed = tuple(removed)
        added = self._take(staged)
        rows, size = sum(file.rows for file in added), sum(file.bytes for file in added)
        if query is None:
            self._check_same_rows(added, removed)
        while True:
            self.refresh()
            committed = self.snapshot.batches.get(query, -1) if query is not None else -1
            if (query is not None and committed >= batch) or not self.snapshot.files.keys() >= set(removed):
                for file in added:
                    self._disk.remove(self._manifest / "files" / file.path)
                return Written(0, 0, 0, self.snapshot.version, skipped=True)
            version = self.snapshot.version + 1
            commit = Commit(version, self._clock.now_ms(), added, removed, query, batch)
            if self._link_new(self._commit_path(version), encode(commit)):
                break
        self.snapshot = self.snapshot.after(commit)
        try:
            self._show(commit)
            self._write_snapshot()
        except OSError as error:
            raise TableError(
                f"{self.path}: version {version} is committed, but its directory does not show all of it yet: {error}; "
                "the next start of a query on it puts that right"
            ) from error
        return Written(rows, len(added), size, version)

    def repair(self) -> None:
        """Make the links in the directory match the committed files, after a crash."""
        while True:
            self.refresh()
            version = self.snapshot.version
            shown = self._shown()
            for path in shown - self.snapshot.files.keys():
                if self._disk.exists(self._manifest / "files" / path) or path in self.snapshot.retired:
                    self._disk.remove(self.path / path)
                else:
                    logger.warning(
                        "%s: %s is not part of this table, but readers of the directory see it", self.path, path
                    )
            for path in self.snapshot.files.keys() - shown:
                self._link(path)
            self.refresh()
            if self.snapshot.version == version:
                return

    def remove_old(self, *, retain_ms: int = RETAIN_MS) -> int:
        """Remove files that left the table `retain_ms` ago, and files uncommitted for a day. Returns their number."""
        self.refresh()
        now_ms = self._clock.now_ms()
        files, removed = self._manifest / "files", 0
        for directory, _, names in os.walk(files):
            for name in names:
                path = Path(directory, name)
                relative = path.relative_to(files).as_posix()
                if relative in self.snapshot.files:
                    continue
                left_ms = self.snapshot.retired.get(relative)
                try:
                    old = self._disk.modified_ms(path) < now_ms - UNCOMMITTED_MS
                except FileNotFoundError:
                    continue
                if left_ms < now_ms - retain_ms if left_ms is not None else old:
                    self._disk.remove(path)
                    removed += 1
        staging = self._manifest / "staging"
        for name in self._disk.list_dir(staging):
            if self._disk.modified_ms(staging / name) < now_ms - UNCOMMITTED_MS:
                self._disk.remove_tree(staging / name)
        return removed

    def _take(self, staged: Path) -> tuple[DataFile, ...]:
        """Move what was staged to where it stays; not a part of the table yet. Files without rows are left out."""
        import pyarrow.parquet as pq

        added: list[DataFile] = []
        directories: set[Path] = set()
        for path in sorted(staged.rglob("*.parquet")):
            relative = path.relative_to(staged)
            if any(part.startswith(("_", ".")) for part in relative.parts):
                continue
            rows = pq.read_metadata(path).num_rows
            if not rows:
                continue
            target = self._manifest / "files" / relative.parent / f"{staged.name}-{len(added)}.parquet"
            self._disk.make_dir(target.parent)
            self._disk.sync_file(path)
            self._disk.rename(path, target, durable=False)
            directories.add(target.parent)
            added.append(
                DataFile(target.relative_to(self._manifest / "files").as_posix(), rows, self._disk.size(target))
            )
        for directory in directories:
            self._disk.sync_dir(directory)
        self._disk.remove_tree(staged)
        return tuple(added)

    def _check_same_rows(self, added: tuple[DataFile, ...], removed: tuple[str, ...]) -> None:
        before = sum(self.snapshot.files[path].rows for path in removed)
        after = sum(file.rows for file in added)
        if before != after:
            raise TableError(f"{self.path}: {before} rows would become {after} rows by compacting; nothing was changed")

    def _show(self, commit: Commit) -> None:
        for path in commit.removed:
            self._disk.remove(self.path / path)
        for file in commit.added:
            self._link(file.path)

    def _shown(self) -> set[str]:
        found = set()
        for directory, directories, names in os.walk(self.path):
            directories[:] = [name for name in directories if not name.startswith(("_", "."))]
            found |= {
                Path(directory, name).relative_to(self.path).as_posix() for name in names if name.endswith(".parquet")
            }
        return found

    def _link(self, path: str) -> None:
        target = self.path / path
        self._disk.make_dir(target.parent, durable=False)
        try:
            os.link(self._manifest / "files" / path, target)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise TableError(
                f"{self.path}: {path} belongs to the table and is missing from {MANIFEST}/files; restore it from a copy"
            ) from None

    def _link_new(self, path: Path, data: bytes) -> bool:
        """Give a durable file its name, whole, unless another file has that name: then False."""
        temporary = self._manifest / "staging" / f"commit-{self._rng.token_bytes(8).hex()}"
        self._disk.write(temporary, data)
        try:
            self._disk.sync_file(temporary)
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise TableError(
                    f"{self.path}: its file system has no hard links, which a table needs ({error.strerror})"
                ) from error
            raise
        finally:
            self._disk.remove(temporary)
        self._disk.sync_dir(path.parent)
        return True

    def _write_snapshot(self) -> None:
        """Every so many versions, all of it in one file; then older commits are not needed any more."""
        version = self.snapshot.version
        if version % COMMITS_PER_SNAPSHOT:
            return
        files = self._manifest / "files"
        kept = {path: at for path, at in self.snapshot.retired.items() if self._disk.exists(files / path)}
        self.snapshot = Snapshot(version, self.snapshot.files, self.snapshot.batches, kept)
        snapshots = self._manifest / "snapshots"
        self._disk.write_atomic(snapshots / version_name(version), encode(self.snapshot))
        for folder, oldest in (
            (snapshots, version - COMMITS_PER_SNAPSHOT),
            (self._manifest / "commits", version - COMMITS_KEPT),
        ):
            for name in self._disk.list_dir(folder):
                number = version_of(name)
                if number is not None and number < oldest:
                    self._disk.remove(folder / name)

    def _commit_path(self, version: int) -> Path:
        return self._manifest / "commits" / version_name(version)


def definition_of(schema: dict[str, Any], partition_by: Iterable[str]) -> TableDefinition:
    """The definition of a new table, by the JSON value of Spark's schema."""
    return TableDefinition(schema, tuple(partition_by))
