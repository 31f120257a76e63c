"""The columns of a write: those of Spark's Kafka sink, and `timestamp`.

| column | type | |
|---|---|---|
| value | string or binary | required; null is a tombstone |
| key | string or binary | the partition is chosen by it, as Java clients choose |
| topic | string | required without the option `topic`, which goes first |
| partition | int | goes before the key |
| headers | array<struct<key: string, value: binary>> | |
| timestamp | timestamp | otherwise the time of writing |

Other columns are ignored, as in Spark's Kafka sink.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ottla.options import OptionError

_BYTES = ("a string or binary", (StringType, BinaryType))
_TYPES: dict[str, tuple[str, tuple[type[DataType], ...]]] = {
    "topic": ("a string", (StringType,)),
    "key": _BYTES,
    "value": _BYTES,
    "partition": ("an int", (IntegerType,)),
    "timestamp": ("a timestamp", (TimestampType, TimestampNTZType)),
    "headers": ("an array<struct<key: string, value: binary>>", (ArrayType,)),
}
_RECORD = ("key", "value", "headers", "partition", "timestamp")


class WriteColumns:
    """The columns of a DataFrame that become records. Raises OptionError if one is missing or has another type."""

    def __init__(self, schema: StructType, topic: str | None) -> None:
        self._topic = topic
        self._record = [name for name in _RECORD if name in schema.names]
        if "value" not in schema.names:
            raise OptionError(f"required column 'value' not found among {', '.join(schema.names) or 'none'}")
        if topic is None and "topic" not in schema.names:
            raise OptionError("topic option required when no 'topic' column is present: set option topic")
        for name in [*self._record, *(["topic"] if topic is None else [])]:
            what, types = _TYPES[name]
            found = schema[name].dataType
            if not isinstance(found, types) or (name == "headers" and not _is_headers(found)):
                raise OptionError(f"column '{name}' must be {what}, not {found.simpleString()}")

    def by_topic(self, batch: Any) -> Iterator[tuple[str, Any]]:
        """The records of a `pyarrow.RecordBatch` by topic, each with only the columns of a record."""
        record = batch.select(self._record)
        if self._topic is not None:
            yield self._topic, record
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise ValueError("null topic present in the data: fill the column 'topic', or set option topic")
        # As slow to import as all the rest, and most writes have one topic.
        import pyarrow.compute as pc

        for topic in topics.unique().to_pylist():
            yield topic, record.filter(pc.equal(topics, pa.scalar(topic, topics.type)))


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]
