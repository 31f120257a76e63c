"""Checks whether a table accepts a row. Others would fail the micro-batch, or make files that readers refuse.

```
 time, date        the years 1 to 9999: no other is read outside of Spark, and Delta's log is damaged by some
 string            UTF-8: readers refuse the file for one that is not
 partition         names a directory: at most 255 bytes with its escapes, no NUL, none of the names with a meaning
 required column   not null, in a Delta table that says so
```
"""

import re
from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.pipelines.tables.spark_rows import EMPTY, NULL

NAME_BYTES_MAX: Final = 255
"""The maximum length of a directory name in bytes, on Linux."""
_ESCAPED: Final = r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]"
"""What Spark writes as three characters in the name of a directory."""
_YEARS: Final[dict[type[DataType], tuple[str, str]]] = {
    DateType: ("date'0001-01-01'", "date'9999-12-31'"),
    TimestampType: ("timestamp_micros(-62135596800000000)", "timestamp_micros(253402300799999999)"),
    TimestampNTZType: ("timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'9999-12-31 23:59:59.999999'"),
}


def refusal(schema: StructType, partition_by: Collection[str], table: StructType | None = None) -> Column:
    """Why a table does not take a row of this schema; null where it does.

    `table` is the schema of a table that is there, whose columns may be required.
    """
    found: list[Column | None] = []
    for field in schema:
        value = f.col(f"`{field.name.replace('`', '``')}`")
        if field.name in partition_by:
            found.append(_directory(value, field))
        found.append(_of_field(value, field, table, ""))
    return f.coalesce(*(each for each in found if each is not None), f.lit(None).cast("string"))


def _of_field(value: Column, field: StructField, table: DataType | None, within: str) -> Column | None:
    name = f"{within}{field.name}"
    declared = table[field.name] if isinstance(table, StructType) and field.name in table.names else None
    inner = _of(value, field.dataType, None if declared is None else declared.dataType, name)
    if declared is None or declared.nullable:
        return inner
    missing = _said(value.isNull(), name, "it is null, and the table requires a value")
    return missing if inner is None else f.coalesce(missing, inner)


def _of(value: Column, kind: DataType, table: DataType | None, name: str) -> Column | None:
    """Of a value of any type; None where each of it fits."""
    if isinstance(kind, StringType):
        return _said(~f.is_valid_utf8(value), name, "it is not UTF-8")
    if type(kind) in _YEARS:
        first, last = map(f.expr, _YEARS[type(kind)])
        said = f.concat(f.lit(f"field {name}: "), value.cast("string"), f.lit(" is outside of the years 1 to 9999"))
        return f.when((value < first) | (value > last), said)
    if isinstance(kind, StructType):
        found = [_of_field(value.getField(each.name), each, table, f"{name}.") for each in kind]
        there = [each for each in found if each is not None]
        return f.when(value.isNotNull(), f.coalesce(*there)) if there else None
    if isinstance(kind, ArrayType):
        declared = table if isinstance(table, ArrayType) else None
        element = declared.elementType if declared is not None else None
        required = declared is not None and not declared.containsNull
        return _first(value, lambda each: _element(each, kind.elementType, element, f"{name}.[]", required=required))
    if isinstance(kind, MapType):
        shown = table if isinstance(table, MapType) else None
        keys = _first(f.map_keys(value), lambda each: _of(each, kind.keyType, None, f"{name} (a key)"))
        required = shown is not None and not shown.valueContainsNull
        inner = shown.valueType if shown is not None else None
        values = _first(
            f.map_values(value), lambda each: _element(each, kind.valueType, inner, f"{name}.[]", required=required)
        )
        known = [each for each in (keys, values) if each is not None]
        return f.coalesce(*known) if known else None
    return None


def _element(value: Column, kind: DataType, table: DataType | None, name: str, *, required: bool) -> Column | None:
    inner = _of(value, kind, table, name)
    if not required:
        return inner
    missing = _said(value.isNull(), name, "it is null, and the table requires a value")
    return missing if inner is None else f.coalesce(missing, inner)


def _first(values: Column, reason: Callable[[Column], Column | None]) -> Column | None:
    """The reason of the first element that has one."""
    if reason(f.lit(None)) is None:
        return None

    def known(each: Column) -> Column:
        found = reason(each)
        assert found is not None
        return found

    return f.get(f.filter(f.transform(values, known), lambda each: each.isNotNull()), f.lit(0))


def _directory(value: Column, field: StructField) -> Column | None:
    """Why a directory cannot be named after a value."""
    if not isinstance(field.dataType, StringType | BinaryType):
        return None
    text = value.cast("string")
    left = NAME_BYTES_MAX - len(escaped(field.name).encode()) - 1
    bytes_of = f.octet_length(text) + 2 * (f.length(text) - f.length(f.regexp_replace(text, _ESCAPED, "")))
    reasons = [
        # The others count characters, which there are none of.
        _said(~f.is_valid_utf8(text), field.name, "it is not UTF-8, and a directory is named after it"),
        _said(f.contains(text, f.lit("\0")), field.name, "a directory is named after it, and it contains NUL"),
        _said(
            text.isin(NULL, EMPTY), field.name, "a directory is named after it, and this name stands for another value"
        ),
        _said(
            bytes_of > left,
            field.name,
            f"a directory is named after it, and its name would have more than {NAME_BYTES_MAX} bytes",
        ),
    ]
    if isinstance(field.dataType, BinaryType):
        reasons.append(
            _said(text == "", field.name, "a directory is named after it, and no bytes would be read as null")
        )
    return f.coalesce(*reasons)


def escaped(name: str) -> str:
    """A partition value as Spark escapes it in the name of a directory.

    >>> escaped("a/b")
    'a%2Fb'
    """
    return re.sub(_ESCAPED, lambda found: f"%{ord(found[0]):02X}", name)


def _said(wrong: Column, name: str, why: str) -> Column:
    return f.when(wrong, f.lit(f"field {name}: {why}"))
