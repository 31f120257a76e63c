"""Rows of a step, read as a batch from the topics."""

import json
from typing import TYPE_CHECKING

from ottla.client.blocking import BlockingClient
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.compiler.expected_drops import Drop, expected_drops
from ottla.pipelines.compiler.plan import compile_pipeline
from ottla.pipelines.compiler.records import visible
from ottla.pipelines.compiler.sources import batch, nothing, reading_options, table
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import PipelineSpec, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


def look(
    spec: PipelineSpec, step: str, spark: "SparkSession", bootstrap: str, *, count: int, records: int, refused: bool
) -> "tuple[list[str], list[Drop]]":
    """Up to `count` rows of a source or step as JSON, out of the newest `records` of each partition; or, `refused`, of
    the rows that it sets aside. And what production drops on the way there. Raises StepError, ClientError.
    """

    def read(source: Source) -> "DataFrame":
        options = reading_options(spec, source, bootstrap)
        if source.table:
            return table(spark, options)
        if source.topics:
            options["startingOffsets"] = json.dumps(newest(source.topics, bootstrap, records))
        return batch(spark, options)

    compiled = compile_pipeline(spec, spark, read, through(spec, step))
    rows = compiled.refused.get(step, nothing(spark)) if refused else visible(compiled.rows[step])
    found = [row["row"] for row in rows.limit(count).select(as_json(rows).alias("row")).collect()]
    return found, expected_drops(compiled)


def as_json(rows: "DataFrame") -> "Column":
    """Each row as a JSON object; bytes that are UTF-8 as the text they are, others in Base64 behind `base64:`."""
    from pyspark.sql import functions as f

    columns = [_readable(f.col(f"`{field.name}`"), field.dataType).alias(field.name) for field in rows.schema.fields]
    return f.to_json(f.struct(*columns)) if columns else f.lit("{}")


def _readable(column: "Column", kind: "DataType") -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    match kind:
        case t.BinaryType():
            text = column.cast("string")
            return f.when(f.is_valid_utf8(text), text).otherwise(f.concat(f.lit("base64:"), f.base64(column)))
        case t.StructType() if kind.fields:
            fields = [_readable(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
            return f.when(column.isNotNull(), f.struct(*fields))
        case t.ArrayType():
            return f.transform(column, lambda each: _readable(each, kind.elementType))
        case t.MapType():
            return f.transform_values(column, lambda _, each: _readable(each, kind.valueType))
    return column


def newest(topics: tuple[str, ...], bootstrap: str, records: int) -> dict[str, dict[str, int]]:
    """The offset of the first of the newest `records` of each partition."""
    with BlockingClient(bootstrap) as client:
        partitions = [
            TopicPartition(name, each)
            for name, topic in client.metadata(topics).items()
            for each in range(len(topic.partitions))
        ]
        ends = client.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
        starts = client.list_offsets(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    found: dict[str, dict[str, int]] = {}
    for place in sorted(partitions):
        begin = max(ends[place].offset - records, starts[place].offset)
        found.setdefault(place.topic, {})[str(place.partition)] = begin
    return found
