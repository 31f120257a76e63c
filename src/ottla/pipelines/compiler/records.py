"""Rows on their way into a topic: the columns of a record."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.sources import ERROR, REASON
from ottla.pipelines.dead_letters.columns import RECORD_COLUMNS, dead_letter
from ottla.pipelines.spec.model import TopicSink

_HEADERS = "array<struct<key: string, value: binary>>"
_JSON = {"ignoreNullFields": "false"}


def record(sink: TopicSink, rows: DataFrame) -> DataFrame:
    """The rows of a sink as records of its topic. Raises AnalysisException for an expression that does not fit them."""
    own = visible(rows)

    def of(expression: str | None, otherwise: Column) -> Column:
        return otherwise if expression is None else f.expr(expression)

    key = of(sink.key, f.lit(None))
    value = of(sink.value, f.to_json(f.struct(*own.columns), _JSON))
    headers = of(sink.headers, f.lit(None))
    timestamp = of(sink.timestamp, f.lit(None))
    columns = [
        f.lit(sink.topic).alias("topic"),
        _bytes(own, key).alias("key"),
        _bytes(own, value).alias("value"),
        headers.cast(_HEADERS).alias("headers"),
        timestamp.cast("timestamp").alias("timestamp"),
    ]
    return own.select(*columns)


def letters(refused: DataFrame, *, topic: str, pipeline: str, step: str) -> DataFrame:
    """The rows that a step refused as records of the topic of dead letters."""
    origin = f.col(ORIGIN) if ORIGIN in refused.columns else None
    error = f.col(ERROR) if ERROR in refused.columns else None
    own = [name for name in refused.columns if name not in (ORIGIN, REASON, ERROR)]
    value = None if origin is not None or not own else f.to_json(f.struct(*own), _JSON)
    why = f.col(REASON)
    columns = dead_letter(
        topic=topic, pipeline=pipeline, step=step, reason=why, error_class=error, origin=origin, value=value
    )
    return refused.select(*columns)


def visible(rows: DataFrame) -> DataFrame:
    """The rows without the columns that are ours."""
    return rows.drop(ORIGIN)


def _bytes(rows: DataFrame, column: Column) -> Column:
    """As bytes: binary as it is, anything else as its text."""
    # Asked of the plan, as an expression for both would have to be right for both: a number is never cast to binary.
    kind = rows.select(column.alias("it")).schema["it"].dataType
    return column if isinstance(kind, BinaryType) else column.cast("string").cast("binary")


__all__ = ["RECORD_COLUMNS", "letters", "record", "visible"]
