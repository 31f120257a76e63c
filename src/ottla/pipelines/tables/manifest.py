"""The manifest of a Parquet table: the data files of each version.

```
  TABLE/
    carrier=UA/3f..-0.parquet          links to the files of the newest version, for plain readers of the directory
    _ottla/
      table.json                       format, columns, partitioning; written once
      commits/00000000000000000007.json    version 7: files added and removed, the query and its batch
      snapshots/00000000000000000050.json  all of version 50, so that earlier commits need not be read
      files/carrier=UA/3f..-0.parquet      the data files, old and new; never changed
      staging/3f../                        what tasks write before it is committed
```

A version exists when its commit does, and a commit is linked to its name only where no other has that name: of two
writers one wins, the other sees it and begins again from there. Every file ends in a line with the CRC-32C of what is
before, so that one that was cut or altered is told from one that is whole.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ottla.pipelines.sealed import NotWholeError, seal, unseal
from ottla.pipelines.tables.table_sink import TableError

FORMAT = 1
"""The format of the directory. A table of a newer format is refused."""


class DataFile(Struct, frozen=True):
    """A Parquet file; `path` is below `files`, with a directory `column=value` for each column of the partitioning."""

    path: str
    rows: int
    bytes: int


class TableDefinition(Struct, frozen=True):
    """The fixed properties of a table. `schema` is the result of Spark's `StructType.jsonValue`."""

    schema: dict[str, Any]
    partition_by: tuple[str, ...]
    format: int = FORMAT


class Commit(Struct, frozen=True, omit_defaults=True):
    """One version. `query` and `batch` are missing where the rows stayed the same: in a compaction."""

    version: int
    time_ms: int
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    query: str | None = None
    batch: int = -1


class Snapshot(Struct, frozen=True):
    """A version: its files, the newest batch of each query, and removed files with their time of removal."""

    version: int = 0
    files: dict[str, DataFile] = {}
    batches: dict[str, int] = {}
    retired: dict[str, int] = {}

    def after(self, commit: Commit) -> "Snapshot":
        """The next version. Raises ValueError for a commit that does not follow."""
        if commit.version != self.version + 1:
            raise ValueError(f"version {commit.version} does not follow version {self.version}")
        missing = [path for path in commit.removed if path not in self.files]
        if missing:
            raise ValueError(f"version {commit.version} removes {missing[0]}, which is not there")
        files = {path: file for path, file in self.files.items() if path not in set(commit.removed)}
        files |= {file.path: file for file in commit.added}
        batches = self.batches if commit.query is None else self.batches | {commit.query: commit.batch}
        retired = self.retired | dict.fromkeys(commit.removed, commit.time_ms)
        return Snapshot(commit.version, files, batches, retired)

    def without_retired(self, before_ms: int) -> "Snapshot":
        """A copy without the files that were removed before this time."""
        return msgspec.structs.replace(
            self, retired={path: at_ms for path, at_ms in self.retired.items() if at_ms >= before_ms}
        )


T = TypeVar("T", TableDefinition, Commit, Snapshot)


def encode(value: TableDefinition | Commit | Snapshot) -> bytes:
    """The content of the file of a value."""
    return seal(value)


def decode(data: bytes, kind: type[T], path: str) -> T:
    """The value in a file. Raises TableError for a file that is truncated, altered, newer or not of a manifest."""
    try:
        return unseal(data, kind, newest_format=FORMAT if kind is TableDefinition else None)
    except NotWholeError as error:
        raise TableError(f"{path}: {error}") from None


def version_name(version: int) -> str:
    """The name of the file of a version; names sort as versions do."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    """The version in the name of a file; None for other files."""
    stem, dot, suffix = name.partition(".")
    return int(stem) if dot and suffix == "json" and len(stem) == 20 and stem.isdecimal() else None
