"""Writes records to a topic: as a sink of Spark, or one micro-batch at a time."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import DataFrame

from ottla.pipelines.compiler.sources import connection_options
from ottla.pipelines.spec.model import TopicSink

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the query whose micro-batch is written."""

BATCH_SIZE: Final = "kafka.batch.size"
BATCH_BYTES: Final = 1_000_000
"""The default batch size of the data sink."""

TIMEOUT_MS: Final = 10_000
"""The timeout of requests when a query starts; if brokers are unreachable, the supervisor restarts it."""


def topic_options(sink: TopicSink, bootstrap: str, bytes_max: int) -> dict[str, str]:
    """The options of the data sink; `bytes_max` is the largest batch that all its topics take."""
    options = {**connection_options(bootstrap), "mode": sink.mode}
    if sink.mode == "exactly-once":
        options["transactionalId"] = sink.transactional_id
    return {**options, **sink.options, **batch_size(sink.options, bytes_max)}


def batch_size(given: Mapping[str, str], bytes_max: int) -> dict[str, str]:
    """The option for the batch size, reduced to what the topics accept."""
    asked = given.get(BATCH_SIZE, str(BATCH_BYTES))
    return {BATCH_SIZE: str(bytes_max)} if asked.isdecimal() and int(asked) > bytes_max else {}


def dealt_out(sink: TopicSink, records: DataFrame, bootstrap: str, topics: Collection[str]) -> DataFrame:
    """Distribute records to the tasks that write them.

    In a transaction, one task writes a partition: there is one task, or records are shuffled by partition. `topics` are
    the possible topics of the records.
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
    """Write a micro-batch; in exactly-once mode, one that this query has written is skipped."""
    writer = records.write.format("ottla").options(**options)
    if options["mode"] == "exactly-once":
        writer = writer.option("queryId", query).option("batchId", str(number))
    writer.mode("append").save()


class TopicWrite:
    """The function for `foreachBatch` with a topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch."""
        write_batch(batch, self._options, query_of(batch), number)
