"""The column that Spark takes event time from within a step: that of the user, shifted (`spec.event_time`).

The shifted column never leaves its step. That there is a watermark upstream is a mark on the user's column, which goes
with it through steps and new names; a later step makes the shifted column anew and marks it as Spark would, since Spark
allows one watermark in a chain.

```
 events ─► once:    _event_time = at + 12000 years, withWatermark(_event_time)      at is marked
        ─► hourly:  _event_time = at + 12000 years, with Spark's mark on it          windows - 12000 years
```
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructField, TimestampType

SHIFTED: Final = "_event_time"
_SPARKS_MARK: Final = "spark.watermarkDelayMs"
"""The mark that Spark leaves on a column of event time."""
_OUR_MARK: Final = "ottla.watermarkDelayMs"


@dataclass(frozen=True, slots=True)
class EventTime:
    """Rows with the event-time column that Spark uses."""

    rows: DataFrame
    column: str
    shift_ms: int = 0

    @property
    def marks(self) -> dict[str, int]:
        """The metadata that mark a column derived from the time, such as the start of a window, as watermarked."""
        kind = _field(self.rows, self.column)
        marks = (kind.metadata if kind is not None else None) or {}
        return {_OUR_MARK: marks[_SPARKS_MARK]} if _SPARKS_MARK in marks else {}

    def back(self, column: Column) -> Column:
        """A time derived by Spark from the column, shifted back to row time."""
        return _moved(column, self.rows.schema[self.column].dataType, -self.shift_ms) if self.shift_ms else column


def event_time(rows: DataFrame, column: str, delay_ms: int, shift_ms: int) -> EventTime:
    """The rows of a stream with a watermark on a column; an existing watermark is kept. A batch does not change.

    Where `shift_ms` is 0, or a function of the user has given the column a watermark, it is Spark's alone.
    """
    kind = _field(rows, column)
    if not rows.isStreaming or (kind is not None and _SPARKS_MARK in (kind.metadata or {})):
        return EventTime(rows, column, 0)
    if kind is not None and not shift_ms and _OUR_MARK in (kind.metadata or {}):
        delay_ms = kind.metadata[_OUR_MARK]
        return EventTime(rows.withMetadata(kind.name, {_SPARKS_MARK: delay_ms}), kind.name, 0)
    if kind is None or not shift_ms:
        # A column that is not there Spark names itself.
        return EventTime(rows.withWatermark(column, interval(delay_ms)), column, 0)
    marks = kind.metadata or {}
    shifted = _moved(f.col(f"`{kind.name}`"), kind.dataType, shift_ms)
    if _OUR_MARK in marks:
        marked = shifted.alias(SHIFTED, metadata={_SPARKS_MARK: marks[_OUR_MARK]})
        return EventTime(rows.select("*", marked), SHIFTED, shift_ms)
    told = rows.withMetadata(kind.name, {**marks, _OUR_MARK: delay_ms})
    return EventTime(told.withColumn(SHIFTED, shifted).withWatermark(SHIFTED, interval(delay_ms)), SHIFTED, shift_ms)


def is_sparks(rows: DataFrame, column: str) -> bool:
    """Whether a column has Spark's own watermark, so that Spark drops times before 1970."""
    kind = _field(rows, column)
    return kind is not None and _SPARKS_MARK in (kind.metadata or {})


def interval(ms: int) -> str:
    """A duration as Spark writes it."""
    return f"{ms} milliseconds"


def _moved(column: Column, kind: DataType, by_ms: int) -> Column:
    if isinstance(kind, TimestampType):
        # By the number, as an interval asks the calendar of each row.
        return f.timestamp_micros(f.unix_micros(column) + f.lit(by_ms * 1000))
    return column + f.expr(f"interval '{by_ms // 86_400_000}' days")


def _field(rows: DataFrame, column: str) -> StructField | None:
    # Names of columns are the same to Spark in any case of letters.
    return next((each for each in rows.schema if each.name.lower() == column.lower()), None)
