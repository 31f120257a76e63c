"""Converts rows to the columns of a record."""

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.sources import ERROR, REASON
from ottla.pipelines.dead_letters.columns import RECORD_COLUMNS, dead_letter
from ottla.pipelines.spec.model import TopicSink

_HEADERS = "array<struct<key: string, value: binary>>"
_JSON = {
    "ignoreNullFields": "false",
    # Without them Spark writes milliseconds, and two times become one.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Of rows as values: all columns, and times with their microseconds."""
_STAR = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|((?:^|[(,])\s*)\*(\s*except\s*\()?""", re.IGNORECASE | re.DOTALL
)
"""All columns, where no product can stand; before it what is quoted."""


def record_columns(sink: TopicSink, rows: DataFrame) -> list[Column]:
    """The rows of a sink as records of its topic: `RECORD_COLUMNS`, for `select`."""
    own = visible(rows)

    def of(expression: str | None, otherwise: Column) -> Column:
        if expression is None:
            return otherwise
        return f.expr(without_origin(expression) if ORIGIN in rows.columns else expression)

    key = of(sink.key, f.lit(None))
    value = of(sink.value, f.to_json(f.struct(*(f"`{name.replace('`', '``')}`" for name in own.columns)), _JSON))
    headers = of(sink.headers, f.lit(None))
    timestamp = of(sink.timestamp, f.lit(None))
    return [
        f.lit(sink.topic).alias("topic"),
        _bytes(rows, key).alias("key"),
        _bytes(rows, value).alias("value"),
        headers.cast(_HEADERS).alias("headers"),
        timestamp.cast("timestamp").alias("timestamp"),
    ]


def record(sink: TopicSink, rows: DataFrame) -> DataFrame:
    """All rows as records. Raises AnalysisException for an expression that does not fit them."""
    return rows.select(*record_columns(sink, rows))


def without_origin(expression: str) -> str:
    """The SQL expression with our internal column excluded from each `*`.

    >>> without_origin("to_json(struct(*))")
    'to_json(struct(* except (_record)))'
    """

    def said(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"{found[1]}* except ({ORIGIN}{', ' if found[2] else ')'}"

    return _STAR.sub(said, expression)


def letters(refused: DataFrame, *, topic: str, pipeline: str, step: str) -> DataFrame:
    """The rows that a step refused as records of the topic of dead letters."""
    own = [name for name in refused.columns if name not in (ORIGIN, REASON, ERROR)]
    return refused.select(*letter_columns(refused, topic=topic, pipeline=pipeline, step=step, own=own))


def letter_columns(refused: DataFrame, *, topic: str, pipeline: str, step: str, own: Sequence[str]) -> list[Column]:
    """Refused rows with `_reason` as `RECORD_COLUMNS`; of a row without a record its columns `own` are the value."""
    origin = f.col(ORIGIN) if ORIGIN in refused.columns else None
    error = f.col(ERROR) if ERROR in refused.columns else None
    shown = None if origin is not None or not own else f.to_json(f.struct(*own), _JSON)
    return dead_letter(
        topic=topic, pipeline=pipeline, step=step, reason=f.col(REASON), error_class=error, origin=origin, value=shown
    )


def visible(rows: DataFrame) -> DataFrame:
    """The rows without our internal columns."""
    return rows.drop(ORIGIN)


def _bytes(rows: DataFrame, column: Column) -> Column:
    """As bytes: binary as it is, anything else as its text."""
    # Asked of the plan, as an expression for both would have to be right for both: a number is never cast to binary.
    kind = rows.select(column.alias("it")).schema["it"].dataType
    return column if isinstance(kind, BinaryType) else column.cast("string").cast("binary")


__all__ = ["RECORD_COLUMNS", "letter_columns", "letters", "record", "record_columns", "visible"]
