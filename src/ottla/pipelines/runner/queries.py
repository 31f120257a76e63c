"""The query of a sink: what it writes, how often, and from which checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.client.blocking import BlockingClient
from ottla.client.errors import TopicNotFoundError
from ottla.client.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.plan import Compiled, compile_pipeline
from ottla.pipelines.compiler.python_modules import StepError
from ottla.pipelines.compiler.records import visible
from ottla.pipelines.compiler.steps import said_of_spark
from ottla.pipelines.runner.beginning import beginning_of_sink
from ottla.pipelines.runner.checkpoint import directory_of
from ottla.pipelines.runner.spark_query import SparkQuery
from ottla.pipelines.runner.table_write import TableWrite, unfenced
from ottla.pipelines.runner.topic_write import TIMEOUT_MS, TopicWrite, dealt_out, topic_options
from ottla.pipelines.spec.lineage import dead_letter_owners, owned, through
from ottla.pipelines.spec.model import PipelineSpec, Sink, Source, TopicSink

GOOD, LETTER = "_good", "_letter"
SMALL_RECORDS: Final = 100_000
"""Records of a table that one task reads within a second, and a driver of the default size holds with room to spare."""


@dataclass(frozen=True, slots=True)
class Running:
    """Where a pipeline runs."""

    spark: SparkSession
    bootstrap: str
    until_caught_up: bool
    fence: Callable[[str], Callable[[], None]] = lambda query: unfenced
    """Of a query: what raises FencedError when another driver has its checkpoint."""


def query_name(spec: PipelineSpec, sink: Sink) -> str:
    """The name of a query in Spark, in messages and in the live view."""
    return f"{spec.name}.{sink.name}"


def start(running: Running, spec: PipelineSpec, sink: Sink) -> SparkQuery:
    """Start the query of a sink. Raises StepError, or what Spark says of the plan."""
    compiled = compile_for(running, spec, sink)
    frame, write = _written(running, compiled, sink)
    writer = frame.writeStream.queryName(query_name(spec, sink)).outputMode(sink.output)
    writer = writer.option("checkpointLocation", directory_of(spec, sink))
    if write is None:
        assert isinstance(sink, TopicSink)
        writer = writer.format("ottla").options(**topic_options(sink, running.bootstrap))
    else:
        writer = writer.foreachBatch(write)
    if running.until_caught_up:
        writer = writer.trigger(availableNow=True)
    elif spec.trigger_ms is not None:
        writer = writer.trigger(processingTime=f"{spec.trigger_ms} milliseconds")
    try:
        return SparkQuery(writer.start())
    except AnalysisException as error:
        raise StepError(f"{spec.at(sink.name)}sink {sink.name}: {said_of_spark(str(error))}{_hint(error)}") from error


def _hint(error: AnalysisException) -> str:
    """What a pipeline has instead of the mode that Spark speaks of."""
    if "without watermark" not in str(error):
        return ""
    return ' (rows are counted by a `window` step, or, without a time, for a topic with output = "update")'


def compile_for(running: Running, spec: PipelineSpec, sink: Sink) -> Compiled:
    """The plan of what one sink needs. The session keeps its views."""
    spark = running.spark
    needed = through(spec, sink.name)
    beginning = beginning_of_sink(spec, sink)

    def read(source: Source) -> DataFrame:
        if source.table:
            options = sources.reading_options(spec, source, running.bootstrap)
            return sources.table(spark, options, small=is_small(source, running.bootstrap))
        group = group_of(spec, sink, source)
        options = sources.streaming_options(spec, source, running.bootstrap, group)
        return sources.stream(spark, options if beginning is None else beginning.options(source, options))

    letters_of = None if spec.audit is None else frozenset(owned(spec, sink.name))
    letters = spec.dead_letters is not None and sink.name in dead_letter_owners(spec).values()
    return compile_pipeline(spec, spark, read, needed, audited=letters_of, letters=letters)


def is_small(source: Source, bootstrap: str) -> bool:
    """Whether the topics of a table have so few records now that one task reads them, and each executor holds them."""
    if not source.topics:
        return False
    with BlockingClient(bootstrap, client_id="ottla-pipeline", api_timeout_ms=TIMEOUT_MS) as client:
        try:
            topics = client.metadata(source.topics)
        except TopicNotFoundError:
            return False  # the data source says which
        places = [TopicPartition(name, each) for name in topics for each in range(len(topics[name].partitions))]
        ends = client.list_offsets(dict.fromkeys(places, int(OffsetAt.LATEST)))
        starts = client.list_offsets(dict.fromkeys(places, int(OffsetAt.EARLIEST)))
    return sum(ends[each].offset - starts[each].offset for each in places) <= SMALL_RECORDS


def group_of(spec: PipelineSpec, sink: Sink, source: Source) -> str | None:
    """The consumer group that shows the progress of a sink: that of the source for the first sink that reads it.

    Each sink reads on its own; two that commit to one group would show now the one, now the other.
    """
    if source.group is None:
        return None
    first = next(each for each in spec.sinks if source.name in through(spec, each.name))
    return source.group if first.name == sink.name else f"{source.group}.{sink.name}"


def _written(
    running: Running, compiled: Compiled, sink: Sink
) -> tuple[DataFrame, Callable[[DataFrame, int], None] | None]:
    """What a sink is given, and what writes a micro-batch of it, where that is not Spark itself.

    Rows of a table and its dead letters go through one query side by side, a struct each: one of the two is null.
    """
    if isinstance(sink, TopicSink):
        letters_to = compiled.spec.dead_letters
        topics = {sink.topic} if letters_to is None else {sink.topic, letters_to.topic}
        records = dealt_out(sink, compiled.records_of(sink), running.bootstrap, topics)
        # Spark refuses data sources written in Python in the update mode; a function that it calls may do the same.
        return records, TopicWrite(sink, running.bootstrap) if sink.output == "update" else None
    rows, letters = visible(compiled.rows[sink.input]), compiled.letters_of(sink)
    fence = running.fence(query_name(compiled.spec, sink))
    write = TableWrite(compiled.spec, sink, running.bootstrap, has_letters=letters is not None, fence=fence)
    if letters is None:
        return rows, write
    good = rows.select(f.struct(*rows.columns).alias(GOOD))
    aside = letters.select(f.struct(*letters.columns).alias(LETTER))
    return good.unionByName(aside, allowMissingColumns=True), write
