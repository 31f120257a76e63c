"""Records into a topic: as a sink of Spark, or a micro-batch at a time."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import DataFrame

from ottla.pipelines.compiler.sources import connection_options
from ottla.pipelines.spec.model import TopicSink

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the query whose micro-batch is written."""

BATCH_SIZE: Final = "kafka.batch.size"
BATCH_BYTES: Final = 1_000_000
"""Of the data sink, unless it is told otherwise."""

TIMEOUT_MS: Final = 10_000
"""Of a question when a query starts; brokers that are away are the supervisor's, who starts it again."""


def topic_options(sink: TopicSink, bootstrap: str, bytes_max: int) -> dict[str, str]:
    """The options of the data sink; `bytes_max` is the largest batch that all its topics take."""
    options = {**connection_options(bootstrap), "mode": sink.mode}
    if sink.mode == "exactly-once":
        options["transactionalId"] = sink.transactional_id
    return {**options, **sink.options, **batch_size(sink.options, bytes_max)}


def batch_size(given: Mapping[str, str], bytes_max: int) -> dict[str, str]:
    """The option for batches that a topic takes, where those of the size that is asked for may be too large."""
    asked = given.get(BATCH_SIZE, str(BATCH_BYTES))
    return {BATCH_SIZE: str(bytes_max)} if asked.isdecimal() and int(asked) > bytes_max else {}


def dealt_out(sink: TopicSink, records: DataFrame, bootstrap: str, topics: Collection[str]) -> DataFrame:
    """The records by the tasks that write them. In a transaction a partition is one task's: there is one task, or the
    records go by shuffle to that of their partition. `topics` are those that they may be of.
    """
    if sink.mode != "exactly-once":
        return records
    if sink.tasks == 1:
        return records.coalesce(1)
    from ottla.client.blocking import BlockingClient
    from pyspark_ottla.partitioning import by_partition

    with BlockingClient(bootstrap, client_id="ottla-pipeline", api_timeout_ms=TIMEOUT_MS) as client:
        counts = {name: len(topic.partitions) for name, topic in client.metadata(topics).items()}
    return by_partition(records, counts, sink.tasks)


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

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch."""
        write_batch(batch, self._options, query_of(batch), number)
