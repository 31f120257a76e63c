"""A source as rows: read from its topics, decoded; what does not decode is set aside with the reason.

```
  key value topic partition offset timestamp headers      as the data source gives them
            └── decoded ──► columns of the schema, _record     good
                        └─► reason, _record                    refused
```
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.dead_letters.columns import origin
from ottla.pipelines.spec.model import PipelineSpec, Source
from ottla.pipelines.spec.source_options import isolation_of
from pyspark_ottla.plain_json import PlainJson

REASON: Final = "_reason"
"""Why a row is refused; null for a good one."""
ERROR: Final = "_error"
"""What kind of refusal it is, where that has a name: the expectation."""
UNDECODED: Final = "a record does not decode"
"""How the message of a query begins that a record ended."""
_PARSED: Final = "_parsed"
_CORRUPT: Final = "_corrupt"
_PLAIN: Final = "data"
PATIENCE_MS: Final = 20_000
"""Longer than a broker takes to be restarted, so that nothing fails then; and people are told within it."""
RECORD_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of the data source, with headers."""
_RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a source that are good, and those that are not: `_reason`, `_record`. None where all are good."""

    good: DataFrame
    refused: DataFrame | None


def connection_options(bootstrap: str) -> dict[str, str]:
    """Where the brokers are, and how long a question may wait for them before the supervisor does."""
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
    elif source.format == "json" and source.schema is not None and _is_plain(source, source.schema):
        options |= {"valueFormat": "plain-json", "valueSchema": source.schema}
    paths = {name: spec.path(value) for name, value in source.options.items() if name.lower() == "archive"}
    return {**options, **source.options, **paths}


def _is_plain(source: Source, schema: str) -> bool:
    """Whether the data source may decode values of this schema; it refuses a second one by itself."""
    return PlainJson.of(schema) is not None and "valueschema" not in map(str.lower, source.options)


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
    """The records that are there when it is evaluated: a join with a stream reads them anew for each micro-batch."""
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
    """Of each key the newest record, without those keys whose newest record is a tombstone.

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
    source: Source, records: DataFrame, audit: AuditPoints = NO_AUDIT, *, strict: bool = False, letters: bool = True
) -> Decoded:
    """The records as rows with the columns of the source's format and schema; those of a stream are counted.

    Without `letters` nothing becomes a dead letter of what is made of them: they are not carried along whole.

    `strict` ends the query at the first record that does not decode: no record is lost in silence.
    """
    with_record = records.withColumn(ORIGIN, origin(records.columns, whole=letters))
    if source.format in ("raw", "text"):
        judged = _text(source, with_record)
    elif source.format == "json":
        judged = _json(source, with_record)
    else:
        reason = f.when(f.col("value").isNull(), "there is no value").otherwise(f.col("error"))
        judged = _Judged(with_record, reason, _fields(source, with_record, "data"))
    rows = judged.rows if judged.reason is None else judged.rows.withColumn(REASON, judged.reason)
    if not source.table:
        # Where both ways begin: a query that goes only one of them knows how many there were.
        also = [f.max("timestamp").alias("newest")]
        if judged.reason is not None:
            also.append(f.count_if(f.col(REASON).isNotNull()).alias("bad:does not decode"))
        rows = audit.entering(source.name, rows, refuses=not strict, of=_RECORD_COLUMNS, also=also)
    if judged.reason is None:
        return Decoded(rows.select(*judged.columns, ORIGIN), None)
    good, bad = f.col(REASON).isNull(), f.col(REASON).isNotNull()
    if strict:
        good = f.when(bad, f.raise_error(_undecodable(source)).cast("boolean")).otherwise(f.lit(True))
    refused = rows.where(bad).select(REASON, ORIGIN)
    return Decoded(rows.where(good).select(*judged.columns, ORIGIN), None if strict else refused)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Records with what decoding made of them: why not, where it did not, and the columns where it did."""

    rows: DataFrame
    reason: Column | None
    columns: list[Column]


def _text(source: Source, records: DataFrame) -> _Judged:
    metadata = [f.col(name) for name in records.columns if name not in ("key", "value", "headers", ORIGIN)]
    named = [] if source.key in (None, "key") else [f.col("key").cast("string").alias(source.key)]
    if source.format == "raw":
        return _Judged(records, None, [*named, f.col("key"), f.col("value"), *metadata])
    text = f.col("value").cast("string")
    reason = f.when(~f.is_valid_utf8(text), "the value is not UTF-8")
    return _Judged(records, reason, [*named, f.col("key").cast("string"), text.alias("value"), *metadata])


def _json(source: Source, records: DataFrame) -> _Judged:
    assert source.schema is not None
    text = f.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    value = f.from_json(text, f"{source.schema}, {_CORRUPT} string", options)
    if _PLAIN in records.columns:
        # What the data source has decoded. Spark looks at the rest, of which it knows more and takes longer.
        fields = (f.col(_PLAIN)[name].alias(name) for name in records.select(f"{_PLAIN}.*").columns)
        corrupt = f.lit(None).cast("string").alias(_CORRUPT)
        value = f.when(f.col(_PLAIN).isNotNull(), f.struct(*fields, corrupt)).otherwise(value)
    parsed = records.withColumn(_PARSED, value)
    corrupt = f.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    reason = (
        f.when(f.col(_PLAIN).isNotNull() if _PLAIN in records.columns else f.lit(False), None)
        .when(f.col("value").isNull(), "there is no value")
        .when(~f.is_valid_utf8(text), "the value is not UTF-8")
        .when(f.col(_PARSED).isNull(), "the value is not a JSON object")
        .when(corrupt & f.try_parse_json(text).isNull(), "the value is not JSON")
        .when(corrupt, f.lit(f"a field is of another type than the schema says: {' '.join(source.schema.split())}"))
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
    """No rows of a schema."""
    return spark.createDataFrame([], schema)


def union(frames: list[DataFrame]) -> DataFrame:
    """The rows of all, whose columns are the same."""
    return reduce(DataFrame.unionByName, frames)


def _milliseconds(start: str) -> int:
    from datetime import UTC, datetime

    found = datetime.fromisoformat(start)
    return round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
