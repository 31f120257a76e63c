"""The columns of a read: those of Spark's Kafka source, in its order."""

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ottla.value_format import ValueFormat

_COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
_ARROW_COLUMNS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
]
_ARROW_HEADERS = pa.field(
    "headers",
    pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
)


def spark_schema(*, include_headers: bool, value_format: ValueFormat | None = None) -> StructType:
    """The columns as Spark's types; all may be null, as in Spark's Kafka source."""
    decoded = [] if value_format is None else value_format.columns()
    return StructType([*_COLUMNS.fields, *([_HEADERS] if include_headers else []), *decoded])


def arrow_schema(*, include_headers: bool) -> Any:
    """The columns of records as Arrow's types. Spark takes record batches of exactly these types and of no others."""
    return pa.schema([*_ARROW_COLUMNS, _ARROW_HEADERS] if include_headers else _ARROW_COLUMNS)


def decoded_arrow_schema(value_format: ValueFormat, *, include_headers: bool) -> Any:
    """The same with the columns of decoded values, as Spark translates their types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    added = to_arrow_schema(StructType(value_format.columns()), timezone="UTC")
    return pa.schema([*arrow_schema(include_headers=include_headers), *added])
