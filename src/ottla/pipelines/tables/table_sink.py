"""The interface of tables for micro-batches."""

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableError(Exception):
    """A table cannot be opened, written or read. The message is one line: which table, what is wrong, what to do."""


class Written(Struct, frozen=True):
    """The result of a write. `skipped` means that the micro-batch was already committed, and nothing was written."""

    rows: int
    files: int
    bytes: int
    version: int
    skipped: bool = False


class Compacted(Struct, frozen=True):
    """The number of merged files, of new files, and of removed old files."""

    replaced: int = 0
    made: int = 0
    removed: int = 0


class TableSink(Protocol):
    """A table, with the streaming query that writes to it.

    The query is known by its id, the one that Spark keeps in the checkpoint: a new checkpoint begins at batch 0 again
    and is another query. Calls block. One thread at a time.
    """

    def write(self, frame: "DataFrame", batch_id: int) -> Written:
        """Add the rows of a micro-batch, all or none; a batch that is in the table already is skipped.

        The rows are written by Spark's tasks, in parallel; the driver publishes them. Raises TableError for rows that
        do not fit the table and for a disk that is full: then nothing of the batch is in the table.
        """
        ...

    def committed_batch(self) -> int | None:
        """The newest batch of this query that is in the table; None before the first."""
        ...

    def compact(self, target_bytes: int) -> Compacted:
        """Merge small files into files of up to about `target_bytes`. Readers see the same rows at any time.

        Needs an active Spark session where the table is rewritten by Spark. Also removes files that no reader needs any
        more. May be called beside `write` of another process; between the batches of the same query.
        """
        ...


def local_directory(path: str) -> str:
    """The absolute path of a table. Raises TableError for a URL of another file system."""
    from pathlib import Path

    scheme, separator, rest = path.partition("://")
    if separator and scheme != "file":
        raise TableError(
            f"{path}: a table needs a directory of this machine, or one that all machines share; "
            f"object stores and other file systems ({scheme}) are not supported"
        )
    if not (rest if separator else path):
        raise TableError("a table needs a directory, and its path is empty")
    return str(Path(rest if separator else path).absolute())
