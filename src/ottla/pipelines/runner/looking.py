"""Rows of a step, read as a batch from the topics."""

import json
from typing import TYPE_CHECKING

from ottla.client.blocking import BlockingClient
from ottla.client.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.spec.model import PipelineSpec, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def look(
    spec: PipelineSpec, step: str, spark: "SparkSession", bootstrap: str, *, count: int, records: int, refused: bool
) -> list[str]:
    """Up to `count` rows of a source or step as JSON, out of the newest `records` of each partition.

    Or, `refused`, of the rows that it sets aside. Raises StepError, ClientError.
    """
    from ottla.pipelines.compiler.plan import compile_pipeline
    from ottla.pipelines.compiler.records import visible
    from ottla.pipelines.compiler.sources import batch, nothing, reading_options
    from ottla.pipelines.spec.lineage import through

    def read(source: Source) -> "DataFrame":
        options = reading_options(source, bootstrap)
        if not source.table and source.topics:
            options["startingOffsets"] = json.dumps(newest(source.topics, bootstrap, records))
        return batch(spark, options)

    compiled = compile_pipeline(spec, spark, read, through(spec, step))
    rows = compiled.refused.get(step, nothing(spark)) if refused else visible(compiled.rows[step])
    return [str(row) for row in rows.limit(count).toJSON().collect()]


def newest(topics: tuple[str, ...], bootstrap: str, records: int) -> dict[str, dict[str, int]]:
    """Where the last records of each partition begin."""
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
