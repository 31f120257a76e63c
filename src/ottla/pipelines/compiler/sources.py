"""Reads the topics of a source and decodes the records; undecodable records are dead letters with a reason.

```
  key value topic partition offset timestamp headers      as the data source gives them
            └── decoded ──► columns of the schema, _record     good
                        └─► reason, _record                    refused
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, TimestampNTZType, TimestampType

from ottla.pipelines.audit.report import DROPPED
from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.places import Place, marked, raised
from ottla.pipelines.compiler.times import ahead, as_text, from_text, has_times, wrong_time
from ottla.pipelines.dead_letters.columns import origin
from ottla.pipelines.spec.model import PipelineSpec, Source
from ottla.pipelines.spec.source_options import isolation_of
from pyspark_ottla.ddl import struct_of

REASON: Final = "_reason"
"""The column with the reason of a refused row; null for good rows."""
ERROR: Final = "_error"
"""The column with the kind of refusal, such as the name of an expectation."""
UNDECODED: Final = "a record does not decode"
"""The prefix of the message of a query that an undecodable record has stopped."""
_PARSED: Final = "_parsed"
_CORRUPT: Final = "_corrupt"
_TEXTS: Final = "_texts"
AHEAD: Final = "too far ahead of the clock"
BEFORE: Final = "before 1970: an `sql` step has windows or joins streams by Spark's watermark, which begins there"
PATIENCE_MS: Final = 20_000
"""The API timeout of sources and sinks: longer than a restart of a broker."""
RECORD_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of the data source, with headers."""
_RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The good rows of a source, and the refused ones: `_reason`, `_record`; None if none can be refused."""

    good: DataFrame
    refused: DataFrame | None


def connection_options(bootstrap: str) -> dict[str, str]:
    """The options for bootstrap brokers and timeout; after the timeout the supervisor waits for the brokers."""
    return {"kafka.bootstrap.servers": bootstrap, "kafka.default.api.timeout.ms": str(PATIENCE_MS)}


def reading_options(spec: PipelineSpec, source: Source, bootstrap: str) -> dict[str, str]:
    """The options of the data source that a stream and a batch share."""
    options = {**connection_options(bootstrap), "includeHeaders": "true"}
    options["kafka.isolation.level"] = isolation_of(source).name.lower()
    if source.topics:
        options["subscribe"] = ",".join(source.topics)
    elif source.pattern is not None:
        options["subscribePattern"] = source.pattern
    if source.format in ("avro", "protobuf"):
        options["valueFormat"] = source.format
        schema = spec.schema_of(source)
        if schema is not None:
            options["valueSchema"] = schema
    elif source.is_strict_json and source.schema is not None:
        # Times without an offset are UTC, as in all that a pipeline file says.
        options |= {"valueFormat": "json", "valueSchema": source.schema, "valueTimeZone": "UTC"}
        if source.timestamps is not None:
            options["valueTimestamps"] = source.timestamps
    paths = {name: spec.path(value) for name, value in source.options.items() if name.lower() == "archive"}
    return {**options, **source.options, **paths}


def streaming_options(spec: PipelineSpec, source: Source, bootstrap: str, group: str | None) -> dict[str, str]:
    """The options of a stream; `group` is where this query's progress is committed to."""
    options = reading_options(spec, source, bootstrap)
    options.setdefault("startingOffsets", source.start if source.start in ("earliest", "latest", "group") else "")
    if not options["startingOffsets"]:
        del options["startingOffsets"]
        options.setdefault("startingTimestamp", str(_milliseconds(source.start)))
    if group is not None:
        options.setdefault("groupId", group)
    if source.max_records is not None:
        options.setdefault("maxOffsetsPerTrigger", str(source.max_records))
    if source.max_bytes is not None:
        options.setdefault("maxBytesPerTrigger", str(source.max_bytes))
    return options


def stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The records of a stream."""
    return spark.readStream.format("ottla").options(**options).load()


def batch(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The records that exist when it is evaluated: a join with a stream reads them again for each micro-batch."""
    return spark.read.format("ottla").options(**options).load()


def table(spark: SparkSession, options: Mapping[str, str], *, small: bool = False) -> DataFrame:
    """The newest record of each key, as of when it is evaluated.

    One that is small is read by one task and goes to all that join with it; else it takes three shuffles to make, and
    two more to join with.
    """
    if small:
        from pyspark_ottla.newest_by_key import table as read_by_one

        return f.broadcast(read_by_one(spark, options))
    return newest_by_key(batch(spark, options))


def newest_by_key(records: DataFrame) -> DataFrame:
    """The newest record of each key, without keys whose newest record is a tombstone.

    The order is that of the partition; where a key lies in several, as after partitions were added, that of time.
    """
    columns = [name for name in records.columns if name != "key"]
    last = f.max_by(f.struct(*columns), "offset").alias("last")
    of_partitions = records.where("key is not null").groupBy("key", "partition").agg(last)
    newest = of_partitions.groupBy("key").agg(
        f.max_by("last", f.struct(f.col("last.timestamp"), f.col("last.offset"))).alias("last")
    )
    return newest.where("last.value is not null").select("key", "last.*").select(*records.columns)


def decode(
    source: Source,
    records: DataFrame,
    audit: AuditPoints = NO_AUDIT,
    *,
    strict: bool = False,
    letters: bool = True,
    times: frozenset[str] = frozenset(),
    since_1970: bool = False,
    left_out: Sequence[Place] = (),
) -> Decoded:
    """The records as rows with the columns of the source's format and schema; those of a stream are counted.

    Without `letters` nothing becomes a dead letter of what is made of them: they are not carried along whole.

    `times` are columns, in lower case, that steps go by: the source says how far ahead of the clock they may be.
    `since_1970` says that Spark drops earlier ones.

    `strict` ends the query at the first record that does not decode: no record is lost in silence.

    `left_out` are records whose dead letters are written already; they are counted as such.
    """
    with_record = records.withColumn(ORIGIN, origin(records.columns, whole=letters))
    if source.format in ("raw", "text"):
        judged = _text(source, with_record)
    elif source.format == "json" and not source.is_strict_json:
        judged = _lenient_json(source, with_record)
    else:
        judged = _Judged(with_record, f.col("error"), _fields(source, with_record, "data"))
    judged = _with_tombstones(source, judged)
    if not strict:
        judged = _within_the_clock(source, judged, times, since_1970=since_1970)
    rows = judged.rows if judged.reason is None else judged.rows.withColumn(REASON, judged.reason)
    if not source.table:
        # Where both ways begin: a query that goes only one of them knows how many there were.
        also = [f.max("timestamp").alias("newest")]
        skips = source.tombstones == "skip"
        if judged.reason is not None:
            also.append(f.count_if(f.col(REASON).isNotNull()).alias("bad:does not decode"))
        if skips:
            also.append(f.count_if(f.col("value").isNull()).alias(f"{DROPPED}tombstone"))
        if left_out:
            rows = marked(rows, left_out)
            also.append(f.count_if(raised()).alias("bad:an expression fails"))
        rows = audit.entering(
            source.name,
            rows,
            refuses=not strict,
            of=_RECORD_COLUMNS,
            also=also,
            letters=raised() if left_out else None,
        )
        if left_out:
            rows = rows.where(~raised())
        if skips:
            rows = rows.where(f.col("value").isNotNull())
    if judged.reason is None:
        return Decoded(rows.select(*judged.columns, *_metadata(source), ORIGIN), None)
    good, bad = f.col(REASON).isNull(), f.col(REASON).isNotNull()
    if strict:
        good = f.when(bad, f.raise_error(_undecodable(source)).cast("boolean")).otherwise(f.lit(True))
    refused = rows.where(bad).select(REASON, ORIGIN)
    rows = rows.where(good).select(*judged.columns, *_metadata(source), ORIGIN)
    return Decoded(rows, None if strict else refused)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Records with what decoding made of them: why not, where it did not, and the columns where it did."""

    rows: DataFrame
    reason: Column | None
    columns: list[Column]


def _with_tombstones(source: Source, judged: _Judged) -> _Judged:
    """What becomes of records without a value, which no format decodes."""
    wanted = source.tombstones or ("row" if source.format in ("raw", "text") else "dead-letter")
    if judged.reason is None and wanted != "dead-letter":
        return judged
    said = f.lit("there is no value" if wanted == "dead-letter" else None).cast("string")
    decoded = f.lit(None).cast("string") if judged.reason is None else judged.reason
    return _Judged(judged.rows, f.when(f.col("value").isNull(), said).otherwise(decoded), judged.columns)


def _within_the_clock(source: Source, judged: _Judged, times: frozenset[str], *, since_1970: bool) -> _Judged:
    """Refuses times that are too far ahead, as one of them would make all others late; and those that always are."""
    there = judged.rows.select(*judged.columns).schema
    reason = judged.reason
    for column, kind in zip(judged.columns, there, strict=True):
        if kind.name.lower() in times and isinstance(kind.dataType, TimestampType | TimestampNTZType):
            said = f.concat(
                f.lit(f"{kind.name} is "),
                column.cast("string"),
                f.lit(f", {AHEAD}: ahead = {source.ahead_ms // 1000} s"),
            )
            late = f.when(ahead(column, source.ahead_ms), said)
            if since_1970:
                before = f.concat(f.lit(f"{kind.name} is "), column.cast("string"), f.lit(f", {BEFORE}"))
                late = late.when(column <= f.lit("1970-01-01 00:00:00").cast(kind.dataType), before)
            reason = late if reason is None else f.coalesce(reason, late)
    return _Judged(judged.rows, reason, judged.columns)


def _metadata(source: Source) -> list[Column]:
    """The columns that the source adds of the record itself."""
    return [f.col(name).alias(column) for column, name in source.metadata.items()]


def _text(source: Source, records: DataFrame) -> _Judged:
    metadata = [f.col(name) for name in records.columns if name not in ("key", "value", "headers", ORIGIN)]
    named = [] if source.key in (None, "key") else [f.col("key").cast("string").alias(source.key)]
    if source.format == "raw":
        return _Judged(records, None, [*named, f.col("key"), f.col("value"), *metadata])
    text = f.col("value").cast("string")
    reason = f.when(~f.is_valid_utf8(text), "the value is not UTF-8")
    return _Judged(records, reason, [*named, f.col("key").cast("string"), text.alias("value"), *metadata])


def _lenient_json(source: Source, records: DataFrame) -> _Judged:
    """What Spark makes of JSON, with its conversions."""
    assert source.schema is not None
    text = f.col("value").cast("string")
    schema = struct_of(source.schema)
    timed = has_times(schema)
    read_as = as_text(schema).add(_CORRUPT, StringType()) if timed else None
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    value = f.from_json(text, read_as or f"{source.schema}, {_CORRUPT} string", options)
    wrong = f.lit(None).cast("string")
    if timed:
        # As a column, as what is computed of it would otherwise read the value once for each field.
        records = records.withColumn(_TEXTS, value)
        value = f.col(_TEXTS)
        wrong = wrong_time(value, schema, source.timestamps)
        fields = (from_text(value[each.name], each.dataType, source.timestamps).alias(each.name) for each in schema)
        value = f.when(value.isNotNull(), f.struct(*fields, value[_CORRUPT].alias(_CORRUPT)))
    parsed = records.withColumn(_PARSED, value)
    corrupt = f.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    reason = (
        f.when(~f.is_valid_utf8(text), "the value is not UTF-8")
        .when(f.col(_PARSED).isNull(), "the value is not a JSON object")
        .when(corrupt & f.try_parse_json(text).isNull(), "the value is not JSON")
        .when(corrupt, f.lit(f"a field is of another type than the schema says: {' '.join(source.schema.split())}"))
        .otherwise(wrong)
    )
    return _Judged(parsed, reason, _fields(source, parsed, _PARSED))


def _fields(source: Source, rows: DataFrame, struct: str) -> list[Column]:
    """The fields of a struct, beside the key when it is asked for; that of a table always is."""
    key = source.key or ("key" if source.table else None)
    # Names of columns are the same to Spark in any case of letters.
    taken = {_CORRUPT, (key or _CORRUPT).lower()}
    fields = [name for name in rows.select(f"{struct}.*").columns if name.lower() not in taken]
    named = [] if key is None else [f.col("key").cast("string").alias(key)]
    return [*named, *(f.col(struct)[name].alias(name) for name in fields)]


def _undecodable(source: Source) -> Column:
    """What the query fails with."""
    place = f.format_string("%s-%d@%d", *(f.col(f"{ORIGIN}.{name}") for name in ("topic", "partition", "offset")))
    said = f"{UNDECODED}: source {source.name}: the record "
    return f.concat(f.lit(said), place, f.lit(": "), f.col(REASON))


def nothing(spark: SparkSession, schema: str = RECORD_SCHEMA) -> DataFrame:
    """An empty DataFrame with this schema."""
    return spark.createDataFrame([], schema)


def union(frames: list[DataFrame]) -> DataFrame:
    """All rows of these DataFrames, which have the same columns."""
    return reduce(DataFrame.unionByName, frames)


def _milliseconds(start: str) -> int:
    from datetime import UTC, datetime

    found = datetime.fromisoformat(start)
    return round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
