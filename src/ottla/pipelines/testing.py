"""Runs the tests of a pipeline file, without a broker.

The steps are the same as in production, but over a batch: no row is late, windows return all their rows at once, and
of the rows of a key the one with the earliest time stays. A record that an expression fails for is left out, and is a
dead letter, where a sink needs what fails.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ottla.pipelines.compiler.expected_drops import LETTER, Drop, expected_drops
from ottla.pipelines.compiler.plan import Compiled, compile_pipeline
from ottla.pipelines.compiler.records import record, visible
from ottla.pipelines.compiler.sources import REASON, RECORD_SCHEMA, newest_by_key, reading_options
from ottla.pipelines.runner.failure import Verdict, failure_of, reason_of
from ottla.pipelines.runner.row_search import ADVICE, RAISED, RowSearch
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import PipelineSpec, Row, Source, TestCase, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.compiler.places import Place
    from ottla.pipelines.compiler.raising import Raising

    Failing = tuple[str, Raising]

SHOWN_MAX: Final = 10
"""The maximum number of shown rows of a difference."""
Values = Mapping[str, Any]


class Tested(Struct, frozen=True):
    """The result of a test: it passed if there are no differences."""

    name: str
    differences: tuple[str, ...] = ()
    drops: "tuple[Drop, ...]" = ()
    """The rows that production would drop, or make dead letters."""


def run_tests(
    spec: PipelineSpec, spark: "SparkSession", only: str | None = None, *, drops: bool = False
) -> list[Tested]:
    """Run the tests of a pipeline, or those whose names contain `only`. With `drops` they also say what production
    would drop, which takes another job of Spark for each.
    """
    return [_tested(spec, case, spark, drops=drops) for case in spec.tests if only is None or only in case.name]


def _tested(spec: PipelineSpec, case: TestCase, spark: "SparkSession", *, drops: bool) -> Tested:
    found: list[str] = []
    dropped: list[Drop] = []
    try:
        session = spark.newSession()

        def read(source: Source) -> "DataFrame":
            return given(spec, source, case.given.get(source.name, ()), session)

        compiled = compile_pipeline(spec, session, read)
        try:
            found, dropped = _outcome(spec, case, compiled, [], drops=drops)
        except Exception as error:
            if failure_of(_said(error)).verdict is not Verdict.ROW:
                raise
            failing = _failing(spec, case, spark.newSession())
            if not failing:
                raise
            if spec.dead_letters is None:
                step, one = failing[0]
                advice = f"name a topic for such records in [dead_letters], or {ADVICE}"
                return Tested(case.name, (f"failed: step {step}: {one.reason}: {advice}",))
            compiled = compile_pipeline(spec, session, read, left_out=[each.place for _, each in failing])
            found, dropped = _outcome(spec, case, compiled, failing, drops=drops)
    except Exception as error:
        found.append(f"failed: {reason_of(_said(error))}")
    return Tested(case.name, tuple(found), tuple(dropped))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _outcome(
    spec: PipelineSpec, case: TestCase, compiled: "Compiled", failing: "Sequence[Failing]", *, drops: bool
) -> "tuple[list[str], list[Drop]]":
    """The differences, and what production would drop."""
    found: list[str] = []
    for name, rows in case.expect.items():
        found += differences(name, rows, _rows_of(compiled, name, rows))
    if case.dead_letters is not None:
        letters = [_letter(spec, case, step, each) for step, each in failing]
        found += differences("dead letters", case.dead_letters, [*letters, *_refused(compiled)])
    if not drops:
        return found, []
    return found, [*_set_aside(failing), *expected_drops(compiled, sinks=True)]


def _failing(spec: PipelineSpec, case: TestCase, spark: "SparkSession") -> "list[Failing]":
    """The records that an expression fails for in what some sink needs, each once, with the step."""
    found: dict[Place, Failing] = {}
    for sink in spec.sinks:
        needed = through(spec, sink.name)
        streams = [each for each in spec.sources.values() if each.name in needed and not each.table]
        records = {each.name: given(spec, each, case.given.get(each.name, ()), spark).persist() for each in streams}
        search = RowSearch(
            spark, spec, sink, records, lambda source: given(spec, source, case.given.get(source.name, ()), spark)
        )
        try:
            rest = search.run(suspect=True)
        finally:
            for rows in records.values():
                rows.unpersist()
        if rest is not None:
            return []
        for step, each in search.found:
            found.setdefault(each.place, (step, each))
    return [*found.values()]


def _letter(spec: PipelineSpec, case: TestCase, step: str, each: "Raising") -> Values:
    """The dead letter of a record that an expression fails for."""
    for source in spec.sources.values():
        topic = source.topics[0] if source.topics else source.name
        for number, row in enumerate(case.given.get(source.name, ())):
            key, value, *place = _record(source, row, topic, number)[:5]
            if tuple(place) == each.place:
                columns = {} if isinstance(row, str) else row
                return {"topic": each.topic, "key": key, "value": value, **columns, "step": step, "reason": each.reason}
    raise AssertionError(f"no row is the record {each.place}")


def _set_aside(failing: "Sequence[Failing]") -> "list[Drop]":
    counted = Counter((step, f"{LETTER}: {RAISED}: {each.reason}") for step, each in failing)
    return [Drop(step, reason, rows) for (step, reason), rows in counted.items()]


def given(spec: PipelineSpec, source: Source, rows: Sequence[Row], spark: "SparkSession") -> "DataFrame":
    """The rows of a test as records of a source, which are decoded as records from brokers are.

    Those of Avro and Protocol Buffers are given as what is decoded from them, and texts as what does not decode.
    """
    topic = source.topics[0] if source.topics else source.name
    records = [_record(source, row, topic, number) for number, row in enumerate(rows)]
    if source.is_strict_json:
        made = _decoded(spec, source, records, spark)
        return newest_by_key(made) if source.table else made
    made = spark.createDataFrame(records, RECORD_SCHEMA)
    if source.format in ("avro", "protobuf"):
        made = _with_data(spec, source, made)
    return newest_by_key(made) if source.table else made


def _decoded(
    spec: PipelineSpec, source: Source, records: Sequence[tuple[Any, ...]], spark: "SparkSession"
) -> "DataFrame":
    """The records with what the data source decodes of them, and by the same decoder."""
    import pyarrow as pa

    from pyspark_ottla.options import Options
    from pyspark_ottla.read_options import READ_OPTIONS
    from pyspark_ottla.record_columns import arrow_schema, decoded_arrow_schema
    from pyspark_ottla.value_format import value_format_of

    value_format = value_format_of(Options(reading_options(spec, source, ""), READ_OPTIONS))
    assert value_format is not None
    plain = arrow_schema(include_headers=True)
    columns = zip(*records, strict=True) if records else [[] for _ in plain]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, plain, strict=True)], schema=plain
    )
    schema = decoded_arrow_schema(value_format, include_headers=True)
    return spark.createDataFrame(pa.Table.from_batches([value_format.adder(schema).add(batch)], schema))


def _with_data(spec: PipelineSpec, source: Source, records: "DataFrame") -> "DataFrame":
    """What the data source adds to the records of these formats."""
    from pyspark.sql import functions as f

    from pyspark_ottla.options import Options
    from pyspark_ottla.read_options import READ_OPTIONS
    from pyspark_ottla.value_format import value_format_of

    options = Options(reading_options(spec, source, ""), READ_OPTIONS)
    value_format = value_format_of(options)
    assert value_format is not None
    text = f.col("value").cast("string")
    data = f.from_json(text, value_format.data_type(), {"mode": "PERMISSIVE"})
    good = f.try_parse_json(text).isNotNull()
    refused = f.when(~good, f.lit(f"the value is not {source.format}"))
    return records.withColumn("data", f.when(good, data)).withColumn("error", refused)


def _record(source: Source, row: Row, topic: str, number: int) -> tuple[Any, ...]:
    """A record with the row as its value; its offset is the number of the row, and its time that many seconds."""
    at = datetime.fromtimestamp(number, UTC)
    if isinstance(row, str):
        return None, row.encode(), topic, 0, number, at, 0, None
    values = dict(row)
    key = values.pop(source.key or "key", None) if _has_key(source) else None
    if source.format in ("raw", "text"):
        value = values.get("value")
        topic, partition = values.get("topic", topic), values.get("partition", 0)
        offset, stamp = values.get("offset", number), values.get("timestamp")
        at = (None if stamp is None else _as_time(stamp)) or at
        return _bytes(key), _bytes(value), topic, partition, offset, at, 0, None
    return _bytes(key), json.dumps(values, default=str).encode(), topic, 0, number, at, 0, None


def _has_key(source: Source) -> bool:
    return source.key is not None or source.table or source.format in ("raw", "text")


def _bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()


def _rows_of(compiled: "Compiled", name: str, expected: Sequence[Row]) -> list[Values]:
    """The rows of a step; of a sink those that it takes, or its records where key or value are asked for."""
    sink = next((each for each in compiled.spec.sinks if each.name == name), None)
    if name in compiled.rows or sink is None:
        return _collect(visible(compiled.rows[name]))
    taken = compiled.judged(sink).where(f"{REASON} is null").drop(REASON)
    rows = visible(taken)
    asked = {column for row in expected if not isinstance(row, str) for column in row}
    if isinstance(sink, TopicSink) and asked - set(rows.columns):
        written = record(sink, taken)
        return _collect(written.selectExpr("topic", "cast(key as string)", "cast(value as string)", "timestamp"))
    return _collect(rows)


def _refused(compiled: "Compiled") -> list[Values]:
    """All rows that sources, steps and sinks set aside: `step`, `reason`, the record's `key` and `value` as text, and
    the row's columns.
    """
    found: list[Values] = []
    of_sinks = {each.name: compiled.judged(each).where(f"{REASON} is not null") for each in compiled.spec.sinks}
    for step, refused in {**compiled.refused, **of_sinks}.items():
        for row in _collect(refused):
            values = dict(row)
            record = values.pop("_record", None) or {}
            values.pop("_error", None)
            about = {"step": step, "reason": values.pop("_reason")}
            found.append({**{name: record.get(name) for name in ("topic", "key", "value")}, **values, **about})
    return found


def _collect(rows: "DataFrame") -> list[Values]:
    return [row.asDict(recursive=True) for row in rows.collect()]


def differences(name: str, expected: Sequence[Row], actual: Sequence[Values]) -> list[str]:
    """Missing and surplus rows, in any order; only the columns that the test names are compared.

    >>> differences("hourly", [{"carrier": "UA", "n": 1}], [{"carrier": "UA", "n": 2, "d": 5.0}])
    ['hourly: 1 row missing, 1 too many', '  - carrier=UA n=1', '  + carrier=UA n=2']
    """
    wanted = [row if not isinstance(row, str) else {"value": row} for row in expected]
    left, missing = [*actual], []
    for row in wanted:
        match = next((index for index, each in enumerate(left) if matches(row, each)), None)
        if match is None:
            missing.append(row)
        else:
            del left[match]
    if not missing and not left:
        return []
    columns = [*dict.fromkeys(column for row in wanted for column in row)]
    lines = [f"{name}: {_count(missing, 'missing')}, {len(left)} too many"]
    lines += [f"  - {_line(row, [*row])}" for row in missing[:SHOWN_MAX]]
    lines += [f"  + {_line(row, columns or [*row])}" for row in left[:SHOWN_MAX]]
    hidden = max(len(missing) - SHOWN_MAX, 0) + max(len(left) - SHOWN_MAX, 0)
    return [*lines, *([f"  and {hidden} more"] if hidden else [])]


def _count(rows: Sequence[Values], what: str) -> str:
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'} {what}"


def matches(expected: Values, actual: Values) -> bool:
    """Whether a row has the expected values."""
    return all(name in actual and same(value, actual[name]) for name, value in expected.items())


def same(expected: Any, actual: Any) -> bool:
    """Whether a value of a file equals one of Spark: times by their text, numbers by value, bytes as UTF-8.

    >>> same("2013-01-01T10:00:00Z", datetime(2013, 1, 1, 10, tzinfo=UTC)), same(0.3, 0.1 + 0.2), same(1, True)
    (True, True, False)
    """
    if isinstance(actual, bytes | bytearray):
        return isinstance(expected, str) and expected.encode() == bytes(actual)
    if isinstance(actual, datetime):
        return isinstance(expected, str | datetime) and _as_time(expected) == _as_time(actual)
    if isinstance(actual, date):
        return str(expected) == actual.isoformat()
    if isinstance(actual, bool) or isinstance(expected, bool):
        return expected is actual
    if isinstance(actual, Decimal):
        return isinstance(expected, int | float | str) and Decimal(str(expected)) == actual
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        return math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(actual, Mapping):
        return isinstance(expected, Mapping) and matches(expected, actual)
    if isinstance(actual, list | tuple):
        alike = isinstance(expected, list | tuple) and len(expected) == len(actual)
        return alike and all(same(*pair) for pair in zip(expected, actual, strict=True))
    return bool(expected == actual)


def _as_time(value: Any) -> datetime | None:
    """A moment; text without a zone is UTC, and what Spark gives without one is of this machine's zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _line(row: Values, columns: Sequence[str]) -> str:
    return " ".join(f"{name}={_text(row.get(name))}" for name in columns)


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return "null" if value is None else str(value)
