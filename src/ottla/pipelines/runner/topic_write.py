"""Records into a topic: as a sink of Spark, or a micro-batch at a time."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame

from ottla.pipelines.spec.model import TopicSink

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the query whose micro-batch is written."""


def topic_options(sink: TopicSink, bootstrap: str) -> dict[str, str]:
    """The options of the data sink."""
    options = {"kafka.bootstrap.servers": bootstrap, "mode": sink.mode}
    if sink.mode == "exactly-once":
        options["transactionalId"] = sink.transactional_id
    return {**options, **sink.options}


def one_writer(sink: TopicSink, records: DataFrame) -> DataFrame:
    """The records in one task, where they are of one transaction: in it a partition is one task's, and the order of the
    records is kept. Dealing them out to several would shuffle them.
    """
    return records.coalesce(1) if sink.mode == "exactly-once" else records


def query_of(batch: DataFrame) -> str:
    """The id of the query whose micro-batch this is."""
    query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query is not None, f"Spark does not say {QUERY_ID}"
    return query


def write_batch(records: DataFrame, options: Mapping[str, str], query: str, number: int) -> None:
    """Write a micro-batch; one that was written by this query is skipped, where the mode is exactly-once."""
    writer = records.write.format("ottla").options(**options)
    if options["mode"] == "exactly-once":
        writer = writer.option("queryId", query).option("batchId", str(number))
    writer.mode("append").save()


class TopicWrite:
    """What `foreachBatch` calls for a topic."""

    def __init__(self, sink: TopicSink, bootstrap: str) -> None:
        self._options = topic_options(sink, bootstrap)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch."""
        write_batch(batch, self._options, query_of(batch), number)
