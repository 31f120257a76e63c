"""Splits the rows of a sink into those that it accepts and its dead letters, in one pass.

```
 rows ─► made, _reason ─► counted ─┬─ _reason is null ─► what is written
                                   └─ else             ─► a dead letter; without a topic for them the query ends
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from ottla.pipelines.compiler import table_limits
from ottla.pipelines.compiler.audit_points import AuditPoints
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.records import letter_columns, record_columns, visible
from ottla.pipelines.compiler.sources import REASON
from ottla.pipelines.compiler.topic_limits import TopicLimits, size_of
from ottla.pipelines.dead_letters.columns import HEADERS_TYPE, REASON_CHARS_MAX, RECORD_COLUMNS
from ottla.pipelines.dead_letters.headers import CUT, PREFIX
from ottla.pipelines.spec.model import TableSink, TopicSink

REFUSED: Final = "a sink does not take a row"
"""The prefix of the message of a query that a refused row has stopped."""
GOOD, LETTER = "_good", "_letter"
MADE: Final = "_made"
_REFUSAL_BYTES: Final = 2_000
"""More than the headers of a refusal have beside the reason."""


@dataclass(frozen=True, slots=True)
class LettersTo:
    """The topic of dead letters, and the pipeline and step that they name."""

    topic: str
    pipeline: str
    bytes_max: int | None = None
    """The maximum size of its records, in bytes."""


def judged_for_topic(sink: TopicSink, rows: DataFrame, limits: TopicLimits) -> DataFrame:
    """The rows with the record that is made of each, and `_reason`, null where the topic takes it."""
    made = rows.select("*", f.struct(*record_columns(sink, rows)).alias(MADE))
    asked = limits.of_columns(headers=sink.headers is not None, timestamp=sink.timestamp is not None)
    return made.withColumn(REASON, asked.refusal(f.col(MADE), sink.topic))


def judged_for_table(sink: TableSink, rows: DataFrame, table: StructType | None) -> DataFrame:
    """The rows with `_reason`, null where the table takes it."""
    return rows.withColumn(REASON, table_limits.refusal(visible(rows).schema, sink.partition_by, table))


def of_topic(
    sink: TopicSink, rows: DataFrame, limits: TopicLimits, letters: LettersTo | None, audit: AuditPoints
) -> DataFrame:
    """The records of a topic and the dead letters of its sink. Raises AnalysisException for what does not fit."""
    made = judged_for_topic(sink, rows, limits)
    made = _counted(sink.name, made, letters, audit, of=[MADE])
    good = [f.col(f"{MADE}.{name}") for name in RECORD_COLUMNS]
    if letters is None:
        return made.select(*good)
    aside = letter_columns(
        made, topic=letters.topic, pipeline=letters.pipeline, step=sink.name, own=visible(rows).columns
    )
    aside = cut(aside, letters.bytes_max, _bound(rows, aside))
    taken = f.col(REASON).isNull()
    return made.select(
        *(
            f.when(taken, one).otherwise(other).alias(name)
            for name, one, other in zip(RECORD_COLUMNS, good, aside, strict=True)
        )
    )


def of_table(
    sink: TableSink, rows: DataFrame, table: StructType | None, letters: LettersTo | None, audit: AuditPoints
) -> DataFrame:
    """The rows of a table; with letters `_good` and `_letter`, one of which is null. `table` is one that is there."""
    own = visible(rows)
    judged = judged_for_table(sink, rows, table)
    judged = _counted(sink.name, judged, letters, audit, of=own.columns)
    names = [f.col(f"`{name.replace('`', '``')}`") for name in own.columns]
    if letters is None:
        return judged.select(*names)
    aside = letter_columns(judged, topic=letters.topic, pipeline=letters.pipeline, step=sink.name, own=own.columns)
    aside = cut(aside, letters.bytes_max, _bound(rows, aside))
    taken = f.col(REASON).isNull()
    return judged.select(f.when(taken, f.struct(*names)).alias(GOOD), f.when(~taken, f.struct(*aside)).alias(LETTER))


def fitting(letters: DataFrame, bytes_max: int | None) -> DataFrame:
    """Dead letters, of which those that their topic does not take go without key and value."""
    columns = [f.col(name) for name in RECORD_COLUMNS]
    return letters.select(*cut(columns, bytes_max, size_of(f.struct(*columns))))


def _bound(rows: DataFrame, letter: Sequence[Column]) -> Column:
    """The most bytes of a letter, without making it: Spark repeats what a condition is made of in each column."""
    named = dict(zip(RECORD_COLUMNS, letter, strict=True))
    none = f.lit(None).cast(HEADERS_TYPE)
    shown = f.struct(named["key"].alias("key"), named["value"].alias("value"), none.alias("headers"))
    record = f.col(ORIGIN) if ORIGIN in rows.columns else shown
    return size_of(record) + f.octet_length(f.substring(f.col(REASON), 1, REASON_CHARS_MAX)) + _REFUSAL_BYTES


def cut(letter: Sequence[Column], bytes_max: int | None, size: Column) -> list[Column]:
    """The `RECORD_COLUMNS` of a letter; where it is too large, its headers of the refusal and one that says so."""
    if bytes_max is None:
        return list(letter)
    named = dict(zip(RECORD_COLUMNS, letter, strict=True))
    large = size > bytes_max
    said = f.struct(f.lit(CUT).alias("key"), f.lit(f"it has more than {bytes_max} bytes").cast("binary").alias("value"))
    headers = named["headers"]
    short = f.array_append(f.filter(headers, lambda each: each["key"].startswith(PREFIX)), said)
    named |= {name: f.when(~large, named[name]) for name in ("key", "value")}
    named["headers"] = f.when(large, short).otherwise(headers)
    return [column.alias(name) for name, column in named.items()]


def _counted(
    sink: str, rows: DataFrame, letters: LettersTo | None, audit: AuditPoints, *, of: Sequence[str]
) -> DataFrame:
    counted = audit.ending(sink, rows, f.col(REASON).isNotNull(), of=of)
    if letters is not None:
        return counted
    return counted.where(f.when(f.col(REASON).isNotNull(), _stop(sink, rows)).otherwise(True))


def _stop(sink: str, rows: DataFrame) -> Column:
    said = f.concat(f.lit(f"{REFUSED}: sink {sink}: "), f.col(REASON))
    if ORIGIN in rows.columns:
        place = (f.col(f"{ORIGIN}.{name}") for name in ("topic", "partition", "offset"))
        said = f.concat(said, f.lit(", in a row of the record "), f.format_string("%s-%d@%d", *place))
    return f.raise_error(said).cast("boolean")


__all__ = ["GOOD", "LETTER", "MADE", "REFUSED", "LettersTo", "fitting", "of_table", "of_topic"]
