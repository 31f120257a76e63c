"""Times in JSON: read as text first, then as a moment that does not depend on the day of reading.

`from_json` guesses: a number counts seconds, `"10:00"` is ten o'clock today. So fields of times are read as text:

```
 schema               text                    unit           value
 at timestamp         2013-01-01T10:15:00Z                   that moment
                      1774692000000           milliseconds   2026-03-28 10:00:00
                      1774692000000                          refused: say what numbers count
                      10:00                                  refused: no date
 day date             2013-01-01                             that day
                      15706                                  refused, with any unit
```
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_MICROS: Final = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_WITH_DATE: Final = r"^\d{4}-\d{1,2}-\d{1,2}([T ].*)?$"
"""Four digits of a year: later ones cannot be read by Python, Arrow or RFC 3339."""
_NUMBER: Final = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_FIRST_MICROS: Final = -62_135_596_800_000_000
_LAST_MICROS: Final = 253_402_300_799_999_999
"""The years 1 to 9999."""


def has_times(kind: DataType) -> bool:
    """Whether there is a time anywhere in a type."""
    return isinstance(kind, DateType | TimestampType | TimestampNTZType) or any(map(has_times, _parts(kind)))


def as_text(kind: StructType) -> StructType:
    """The struct with text for each time."""
    return StructType([StructField(each.name, _as_text(each.dataType)) for each in kind.fields])


def _as_text(kind: DataType) -> DataType:
    match kind:
        case DateType() | TimestampType() | TimestampNTZType():
            return StringType()
        case StructType():
            return as_text(kind)
        case ArrayType():
            return ArrayType(_as_text(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _as_text(kind.valueType))
    return kind


def from_text(column: Column, kind: DataType, unit: str | None) -> Column:
    """Converts a column that was read `as_text` to its own type; invalid times are null."""
    if not has_times(kind):
        return column
    match kind:
        case StructType():
            fields = [from_text(column[each.name], each.dataType, unit).alias(each.name) for each in kind.fields]
            return f.when(column.isNotNull(), f.struct(*fields))
        case ArrayType():
            return f.transform(column, lambda each: from_text(each, kind.elementType, unit))
        case MapType():
            return f.transform_values(column, lambda _, each: from_text(each, kind.valueType, unit))
    dated = f.when(column.rlike(_WITH_DATE), column.try_cast(kind))
    dated = f.when(f.year(dated).between(1, 9999), dated)
    if unit is None or isinstance(kind, DateType):
        return dated
    number = column.try_cast("decimal(38, 9)") * f.lit(_MICROS[unit])
    micros = f.when(number.between(_FIRST_MICROS, _LAST_MICROS), f.floor(number).cast("bigint"))
    return f.when(column.rlike(_NUMBER), f.timestamp_micros(micros).cast(kind)).otherwise(dated)


def wrong_time(column: Column, kind: StructType, unit: str | None) -> Column:
    """Which field of a struct that was read `as_text` is not a time, and what to do; null where all are."""
    reasons = _reasons(column, kind, unit, "")
    return f.coalesce(*reasons) if reasons else f.lit(None).cast("string")


def _reasons(column: Column, kind: StructType, unit: str | None, around: str) -> list[Column]:
    found: list[Column] = []
    for each in kind.fields:
        inner, name = column[each.name], f"{around}{each.name}"
        if isinstance(each.dataType, StructType):
            found += _reasons(inner, each.dataType, unit, f"{name}.")
        elif has_times(each.dataType):
            found.append(_reason(inner, each.dataType, unit, name))
    return found


def _reason(column: Column, kind: DataType, unit: str | None, name: str) -> Column:
    if isinstance(kind, ArrayType | MapType):
        bad = _loses(column, kind, unit)
        return f.when(bad, f.lit(f"{name}: a time in it cannot be read; it must have a date of the years 1 to 9999"))
    bad = column.isNotNull() & from_text(column, kind, unit).isNull()
    if isinstance(kind, DateType):
        advice = "write a date of the years 1 to 9999, as in 2013-06-01"
    elif unit is None:
        advice = 'say timestamps = "seconds", "milliseconds" or "microseconds" in the source'
    else:
        advice = f"in {unit} it is outside of the years 1 to 9999"
    number = f.concat(f.lit(f"{name} is the number "), f.substring(column, 1, 40), f.lit(f": {advice}"))
    text = f.concat(
        f.lit(f"{name} is not a time: '"),
        f.substring(column, 1, 40),
        f.lit("'; it must have a date of the years 1 to 9999"),
    )
    return f.when(bad, f.when(column.rlike(_NUMBER), number).otherwise(text))


def _loses(column: Column, kind: DataType, unit: str | None) -> Column:
    """Whether a value somewhere in it is lost when it is read from text."""
    if not has_times(kind):
        return f.lit(False)
    match kind:
        case StructType():
            return reduce(Column.__or__, (_loses(column[each.name], each.dataType, unit) for each in kind.fields))
        case ArrayType():
            return f.coalesce(f.exists(column, lambda each: _loses(each, kind.elementType, unit)), f.lit(False))
        case MapType():
            values = f.map_values(column)
            return f.coalesce(f.exists(values, lambda each: _loses(each, kind.valueType, unit)), f.lit(False))
    return column.isNotNull() & from_text(column, kind, unit).isNull()


def _parts(kind: DataType) -> list[DataType]:
    match kind:
        case StructType():
            return [each.dataType for each in kind.fields]
        case ArrayType():
            return [kind.elementType]
        case MapType():
            return [kind.valueType]
    return []


def ahead(column: Column, ahead_ms: int) -> Column:
    """Whether a time is further ahead of the clock than it may be. Within a micro-batch the clock stands still."""
    bound = f.current_timestamp() + f.expr(f"interval {ahead_ms} milliseconds")
    return f.coalesce(column > bound, f.lit(False))
