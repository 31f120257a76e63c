"""Starts the query of a sink."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ottla.client.blocking import BlockingClient
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import TopicNotFoundError
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.places import Place
from ottla.pipelines.compiler.plan import Compiled, compile_pipeline
from ottla.pipelines.compiler.python_modules import StepError
from ottla.pipelines.compiler.steps import said_of_spark
from ottla.pipelines.compiler.topic_limits import TopicLimits
from ottla.pipelines.runner.beginning import beginning_of_sink
from ottla.pipelines.runner.checkpoint import directory_of
from ottla.pipelines.runner.spark_query import SparkQuery
from ottla.pipelines.runner.table_write import TableWrite, schema_of, unfenced
from ottla.pipelines.runner.topic_write import TIMEOUT_MS, TopicWrite, dealt_out, topic_options
from ottla.pipelines.spec.lineage import owned, through
from ottla.pipelines.spec.model import PipelineSpec, Sink, Source, TopicSink
from pyspark_ottla.options import does_not_exist

SMALL_RECORDS: Final = 100_000
"""The maximum size of a table that one task reads and all executors hold in memory, in records."""


@dataclass(frozen=True, slots=True)
class Running:
    """The session and the brokers of a running pipeline."""

    spark: SparkSession
    bootstrap: str
    until_caught_up: bool
    fence: Callable[[str], Callable[[], None]] = lambda query: unfenced
    """Returns, for a query, a function that raises FencedError if another driver has its checkpoint."""


def query_name(spec: PipelineSpec, sink: Sink) -> str:
    """The name of a query in Spark, in messages and in the live view."""
    return f"{spec.name}.{sink.name}"


def start(running: Running, spec: PipelineSpec, sink: Sink, left_out: Sequence[Place] = ()) -> SparkQuery:
    """Start the query of a sink. `left_out` are records that an expression raised for.

    Raises StepError, or what Spark says of the plan.
    """
    compiled = compile_for(running, spec, sink, left_out)
    limits = limits_of(spec, sink, running.bootstrap)
    options = None
    if isinstance(sink, TopicSink):
        options = topic_options(sink, running.bootstrap, min(each.bytes_max for each in limits.values()))
    frame, write = _written(running, compiled, sink, limits, options)
    writer = frame.writeStream.queryName(query_name(spec, sink)).outputMode(sink.output)
    writer = writer.option("checkpointLocation", directory_of(spec, sink))
    if write is None:
        assert options is not None
        writer = writer.format("ottla").options(**options)
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


def compile_for(running: Running, spec: PipelineSpec, sink: Sink, left_out: Sequence[Place] = ()) -> Compiled:
    """The plan of one sink. Creates views in the session."""
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
    # Any sink may refuse a row.
    letters = spec.dead_letters is not None
    checkpoint = directory_of(spec, sink)
    return compile_pipeline(
        spec, spark, read, needed, audited=letters_of, letters=letters, checkpoint=checkpoint, left_out=left_out
    )


def is_small(source: Source, bootstrap: str) -> bool:
    """Whether the topics of a table have at most `SMALL_RECORDS` records now."""
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


def limits_of(spec: PipelineSpec, sink: Sink, bootstrap: str) -> dict[str, TopicLimits]:
    """The current limits of the topics that a sink writes to, dead letters included.

    Raises StepError for a topic that does not exist, and for a topic of dead letters that does not keep them.
    """
    topics = [sink.topic] if isinstance(sink, TopicSink) else []
    if spec.dead_letters is not None:
        topics.append(spec.dead_letters.topic)
    found: dict[str, TopicLimits] = {}
    if not topics:
        return found
    with BlockingClient(bootstrap, client_id="ottla-pipeline", api_timeout_ms=TIMEOUT_MS) as client:
        for topic in topics:
            try:
                found[topic] = TopicLimits.of(client.topic_settings(topic, own=False))
            except TopicNotFoundError:
                # Spark would say so minutes later: of dead letters when there is the first.
                raise StepError(f"{spec.at(sink.name)}sink {sink.name}: {does_not_exist(f'topic {topic!r}')}") from None
    if spec.dead_letters is not None and found[spec.dead_letters.topic].keys_required:
        raise StepError(
            f"[dead_letters]: topic {spec.dead_letters.topic} is compacted (cleanup.policy): it refuses a dead letter"
            " without a key, and keeps only the last one of each key. Set cleanup.policy=delete, or name another topic"
        )
    if isinstance(sink, TopicSink) and sink.options.get("kafka.compression.type", "none") != "none":
        return {topic: each.compressed() for topic, each in found.items()}
    return found


def group_of(spec: PipelineSpec, sink: Sink, source: Source) -> str | None:
    """The consumer group that shows the progress of a sink: that of the source for the first sink that reads it.

    Each sink reads on its own; two that commit to one group would show now the one, now the other.
    """
    if source.group is None:
        return None
    first = next(each for each in spec.sinks if source.name in through(spec, each.name))
    return source.group if first.name == sink.name else f"{source.group}.{sink.name}"


def _written(
    running: Running,
    compiled: Compiled,
    sink: Sink,
    limits: Mapping[str, TopicLimits],
    options: Mapping[str, str] | None,
) -> tuple[DataFrame, Callable[[DataFrame, int], None] | None]:
    """What a sink is given, and what writes a micro-batch of it, where that is not Spark itself."""
    spec = compiled.spec
    letter_bytes_max = None if spec.dead_letters is None else limits[spec.dead_letters.topic].bytes_max
    if isinstance(sink, TopicSink):
        assert options is not None
        records = compiled.records_of(sink, limits[sink.topic], letter_bytes_max)
        records = dealt_out(sink, records, running.bootstrap, limits.keys())
        # Spark refuses data sources written in Python in the update mode; a function that it calls may do the same.
        return records, TopicWrite(options) if sink.output == "update" else None
    rows = compiled.rows_of(sink, schema_of(spec, sink), letter_bytes_max)
    fence = running.fence(query_name(spec, sink))
    return rows, TableWrite(spec, sink, running.bootstrap, letter_bytes_max=letter_bytes_max, fence=fence)
