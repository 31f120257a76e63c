"""The columns of a read: those of Spark's Kafka source, in its order."""

from typing import Any

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

from pyspark_ottla.plain_json import PlainJson
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


def spark_schema(*, include_headers: bool, value_format: ValueFormat | PlainJson | None = None) -> StructType:
    """The columns as Spark's types; all may be null, as in Spark's Kafka source."""
    decoded = [] if value_format is None else value_format.columns()
    return StructType([*_COLUMNS.fields, *([_HEADERS] if include_headers else []), *decoded])


def arrow_schema(*, include_headers: bool) -> Any:
    """The columns of records as Arrow's types. Spark takes record batches of exactly these types and of no others."""
    # Only here: Spark asks for the columns in a process that has no use for Arrow, whose import takes the longest.
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    columns = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
    }
    if include_headers:
        columns["headers"] = pa.list_(pa.field("element", header))
    return pa.schema(list(columns.items()))


def decoded_arrow_schema(value_format: ValueFormat | PlainJson, *, include_headers: bool) -> Any:
    """The same with the columns of decoded values, as Spark translates their types."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    added = to_arrow_schema(StructType(value_format.columns()), timezone="UTC")
    return pa.schema([*arrow_schema(include_headers=include_headers), *added])
