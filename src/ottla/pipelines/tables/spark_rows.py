"""Checks rows against the schema of a table, and writes them as Parquet files in parallel."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.tables.table_sink import TableError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
EMPTY = "__OTTLA_EMPTY__"
"""The directory name of an empty string; Spark would use the name of null."""
NULL = "__HIVE_DEFAULT_PARTITION__"
"""Spark's directory name for null."""
_FULL = ("No space left on device", "Disk quota exceeded")


def check_partitioning(path: str, schema: "StructType", partition_by: Sequence[str]) -> None:
    """Raises TableError if a partition column does not exist, or if all columns are partition columns."""
    for name in partition_by:
        if name not in schema.names:
            raise TableError(
                f"{path}: partitioned by {name}, which is not a column; the columns are {', '.join(schema.names)}"
            )
    if not set(schema.names) - set(partition_by):
        raise TableError(f"{path}: partitioned by all its columns; at least one must be left for the files")


def check_fit(path: str, rows: "StructType", table: "StructType") -> None:
    """Raises TableError, which names each column and its types, if rows do not fit the columns of the table."""
    given = {field.name: field.dataType for field in rows.fields}
    wanted = {field.name: field.dataType for field in table.fields}
    reasons = []
    for name, kind in wanted.items():
        if name not in given:
            reasons.append(f"column {name} ({kind.simpleString()}) is missing")
        elif plain(given[name]) != plain(kind):
            reasons.append(f"column {name} is {given[name].simpleString()}, the table has {kind.simpleString()}")
    reasons += [
        f"column {name} ({kind.simpleString()}) is not in the table"
        for name, kind in given.items()
        if name not in wanted
    ]
    if reasons:
        raise TableError(f"{path}: the rows do not fit the table, nothing was written: {'; '.join(reasons)}")


def plain(kind: "DataType") -> object:
    """A type as JSON, without nullability and metadata."""

    def stripped(value: object) -> object:
        if isinstance(value, dict):
            dropped = {"nullable", "containsNull", "valueContainsNull", "metadata"}
            return {key: stripped(each) for key, each in value.items() if key not in dropped}
        return [stripped(each) for each in value] if isinstance(value, list) else value

    return stripped(kind.jsonValue())


def write_files(
    frame: "DataFrame", staged: Path, columns: Sequence[str], partition_by: Sequence[str], path: str
) -> None:
    """Write the rows with Spark's tasks to a new directory, on a file system that all machines share.

    Raises TableError for a full disk and for types that Parquet cannot hold; what was staged is for the caller to
    remove, whatever is raised.
    """
    from pyspark.errors import AnalysisException

    settings = frame.sparkSession.conf
    before = settings.get(_TIMESTAMPS, None)
    settings.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        chosen = frame.select(*(_laid_out(frame, name) if name in partition_by else f"`{name}`" for name in columns))
        writer = chosen.write.mode("error")
        (writer.partitionBy(*partition_by) if partition_by else writer).parquet(f"file://{staged}")
    except AnalysisException as error:
        raise TableError(f"{path}: these rows cannot be written: {str(error).partition(chr(10))[0]}") from error
    except Exception as error:
        if any(words in str(error) for words in _FULL):
            raise full(path) from error
        raise
    finally:
        if before is None:
            settings.unset(_TIMESTAMPS)
        else:
            settings.set(_TIMESTAMPS, before)


def _laid_out(frame: "DataFrame", name: str) -> "Column":
    """A column that directories are named after."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    column = f.col(f"`{name}`")
    if not isinstance(frame.schema[name].dataType, StringType):
        return column
    return f.when(column == "", EMPTY).otherwise(column).alias(name)


def full(path: str) -> TableError:
    """The error for a full disk."""
    return TableError(
        f"{path}: no space left on its disk; nothing of the batch was published: make room and start again"
    )
