"""Applies each kind of step to DataFrames.

One function a kind. Rows are a stream or a batch, and the result is of the same kind: of a batch the watermark means
nothing, windows give all their rows at once, and of the rows of a key the first one stays.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructField, TimestampNTZType, TimestampType
from pyspark.sql.window import Window as SqlWindow

from ottla.pipelines.audit.late import LATE
from ottla.pipelines.audit.report import DROPPED
from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.event_time import event_time, interval, is_sparks
from ottla.pipelines.compiler.expectations import expect
from ottla.pipelines.compiler.origin import ORIGIN, with_origin
from ottla.pipelines.compiler.python_modules import StepError, call, load, ship
from ottla.pipelines.compiler.shifted_processor import ShiftedProcessor
from ottla.pipelines.compiler.sources import REASON
from ottla.pipelines.compiler.times import ahead
from ottla.pipelines.spec.event_time import ANY_YEAR, shift_ms
from ottla.pipelines.spec.model import DAY_MS, Deduplicate, Expect, Join, Python, Sql, State, Step, Window
from pyspark_ottla.batch_watermark import watermark_ms

NO_TIME = "no time"
AHEAD = "ahead of the clock"
BEFORE_1970 = "before 1970"
"""The reason for rows that are dropped before a step with a time of Spark's own watermark."""
_ALONE = "_alone"
_SQLSTATE = re.compile(r" SQLSTATE: \w+")
_OWN_COLUMN = re.compile(rf", (?:`\w+`\.)?`?{ORIGIN}`?(?=[\]),])|(?<=[\[(])(?:`\w+`\.)?`?{ORIGIN}`?, ")
"""In a list of columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of sources and earlier steps by name; they are also views of the session."""

    spark: SparkSession
    directory: Path
    audit: AuditPoints = NO_AUDIT
    ahead_ms: int = DAY_MS
    """How far times may be ahead of the clock."""
    checkpoint: str | None = None
    """The checkpoint of the query, from which steps read the watermark."""
    shift_ms: int = shift_ms(ANY_YEAR)
    """How much later the event times are that Spark is given, so that none lies before its first watermark."""
    counted: frozenset[str] = frozenset()
    """The steps whose late rows are counted, and dropped, before Spark drops them."""
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def add(self, name: str, rows: DataFrame) -> None:
        """Makes these rows available to later steps under a name."""
        self.frames[name] = rows
        rows.createOrReplaceTempView(f"`{name}`")


def apply(step: Step, rows: Rows, *, shuffled: bool = False) -> tuple[DataFrame, DataFrame | None]:
    """The rows of a step, and those it sets aside. Raises StepError, or what Spark says of its SQL.

    `shuffled` says that what comes behind it shuffles its rows anyway.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        return _apply(step, rows, shuffled=shuffled)
    except (AnalysisException, ParseException) as error:
        raise StepError(f"step {step.name}: {said_of_spark(str(error))}") from error


def _apply(step: Step, rows: Rows, *, shuffled: bool) -> tuple[DataFrame, DataFrame | None]:
    inputs = [rows.frames[name] for name in step.inputs]
    match step.action:
        case Sql():
            return _sql(step.action.sql, rows.spark), None
        case Expect():
            return expect(step.name, step.action, inputs[0], rows.audit, parting=shuffled)
        case Deduplicate():
            timed, late = _with_time(step, rows, [inputs[0]], [step.action.time], balances=inputs[0].isStreaming)
            return _deduplicate(step.action, timed[0], rows.shift_ms), late
        case Window():
            timed, late = _with_time(step, rows, inputs, [step.action.time])
            return _window(step.action, timed[0], rows.shift_ms), late
        case Join():
            timed, late = _with_time(step, rows, inputs, [step.action.time, step.action.with_time])
            sides = dict(zip(step.inputs, timed, strict=True))
            return _join(step.name, step.action, sides, rows.shift_ms), late
        case Python():
            function = step.action.function or load(step.name, step.action.python, rows.directory)
            ship(rows.directory)
            made = call(step.name, step.action.python, function, *inputs)
            if not isinstance(made, DataFrame):
                raise StepError(f"step {step.name}: {step.action.python} returned {type(made).__name__}, no DataFrame")
            return made, None
        case State():
            return _state(step, step.action, rows, inputs[0]), None


def _sql(sql: str, spark: SparkSession) -> DataFrame:
    """The query with the origin carried along, if that is one that Spark understands; else as it was written."""
    from pyspark.errors import AnalysisException, ParseException

    plain = spark.sql(sql)
    carrying = None if ORIGIN in plain.columns else with_origin(sql)
    if carrying is None:
        return plain
    try:
        carried = spark.sql(carrying)
    except (AnalysisException, ParseException):
        return plain
    return carried.select(*(f"`{name}`" for name in plain.columns), ORIGIN) if _distinct(carried) else plain


def _distinct(rows: DataFrame) -> bool:
    return len(set(rows.columns)) == len(rows.columns)


def _with_time(
    step: Step, rows: Rows, inputs: list[DataFrame], columns: list[str | None], *, balances: bool = False
) -> tuple[list[DataFrame], DataFrame | None]:
    """The inputs without the rows that have no time to go by, or one that is too far ahead; both are counted. And the
    rows that are late, where the step sets them aside.

    A time ahead would move the watermark, and all others would be late. Spark drops a null itself, uncounted.
    """
    found, aside = [], []
    for number, (frame, column) in enumerate(zip(inputs, columns, strict=True)):
        kind = next((each for each in frame.schema if column is not None and each.name.lower() == column.lower()), None)
        if kind is None or not isinstance(kind.dataType, TimestampType | TimestampNTZType):
            found.append(frame)
            continue
        # The sides of a join are counted apart: an observation has one name in a query.
        place = step.name if not number else f"{step.name}/{step.inputs[number]}"
        at = f.col(f"`{kind.name}`")
        reasons = {NO_TIME: at.isNull(), AHEAD: ahead(at, rows.ahead_ms)}
        if not rows.shift_ms or is_sparks(frame, kind.name):
            first = f.lit("1970-01-01 00:00:00").cast(kind.dataType)
            reasons[BEFORE_1970] = f.coalesce(at <= first, f.lit(False))
        counts = [f.count_if(which).alias(f"{DROPPED}{reason}") for reason, which in reasons.items()]
        gone = reduce(Column.__or__, reasons.values())
        letters = step.letters_late_rows
        if not frame.isStreaming or not (letters or step.name in rows.counted):
            counted = rows.audit.entering(place, frame, refuses=False, also=counts, balances=balances)
            found.append(counted.where(~gone))
            continue
        reason = _lateness(step, rows, frame, kind).alias(REASON)
        late_rows = f.count_if(f.col(REASON).isNotNull() & ~gone)
        counts.append(late_rows.alias("bad:late" if letters else f"{DROPPED}{LATE}"))
        judged = frame.select("*", reason)
        counted = rows.audit.entering(place, judged, refuses=letters, of=frame.columns, also=counts, balances=balances)
        there = counted.where(~gone)
        found.append(there.where(f.col(REASON).isNull()).select(*frame.columns))
        if letters:
            kept = [ORIGIN] if ORIGIN in frame.columns else frame.columns
            aside.append(there.where(f.col(REASON).isNotNull()).select(REASON, *kept))
    late = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), aside) if aside else None
    return found, late


def _lateness(step: Step, rows: Rows, frame: DataFrame, time: StructField) -> Column:
    """Why a row comes too late for a step, as Spark sees it; null for one that does not."""
    if rows.checkpoint is None or "://" in rows.checkpoint:
        raise StepError(f"step {step.name}: late_rows needs `checkpoints` in a directory, and is in {rows.checkpoint}")
    shift_ms = 0 if is_sparks(frame, time.name) else rows.shift_ms
    # A scalar: one task finds it out for each micro-batch.
    watermark = (watermark_ms(rows.spark, rows.checkpoint) - f.lit(shift_ms)) * 1000
    at = last = f.unix_micros(f.col(f"`{time.name}`").cast("timestamp"))
    if isinstance(step.action, Window):
        # The end of the last of its windows.
        slide_us, every_us = (step.action.slide_ms or step.action.every_ms) * 1000, step.action.every_ms * 1000
        last = at - f.pmod(at, f.lit(slide_us)) + f.lit(every_us)
    said = f.concat(
        f.lit(f"{LATE}: {time.name} is "),
        f.col(f"`{time.name}`").cast("string"),
        f.lit(", and the watermark "),
        f.timestamp_micros(watermark).cast("string"),
    )
    return f.when(last <= watermark, said)


def _deduplicate(action: Deduplicate, rows: DataFrame, shift_ms: int) -> DataFrame:
    by, kept = [*action.by], rows.columns
    if action.nulls == "distinct":
        # A key with a null is one of its own: another column of the key tells it from all others.
        record = f.format_string("%s-%d@%d", *(f.col(f"{ORIGIN}.{name}") for name in ("topic", "partition", "offset")))
        alone = record if ORIGIN in kept else f.uuid()
        missing = reduce(Column.__or__, (f.col(f"`{name}`").isNull() for name in by))
        rows, by = rows.withColumn(_ALONE, f.when(missing, alone)), [*by, _ALONE]
    if rows.isStreaming:
        timed = event_time(rows, action.time, action.within_ms, shift_ms)
        return timed.rows.dropDuplicatesWithinWatermark(by).select(*kept)
    order = SqlWindow.partitionBy(*by).orderBy(action.time)
    return rows.withColumn("_nth", f.row_number().over(order)).where("_nth = 1").select(*kept)


def _window(action: Window, rows: DataFrame, shift_ms: int) -> DataFrame:
    timed = event_time(rows, action.time, action.late_ms, shift_ms)
    slide_ms = action.every_ms if action.slide_ms is None else action.slide_ms
    # Windows begin at whole multiples since 1970, of the times as they were.
    start = interval(timed.shift_ms % slide_ms)
    window = f.window(timed.column, interval(action.every_ms), interval(slide_ms), start)
    aggregates = [f.expr(expression).alias(name) for name, expression in action.aggregate.items()]
    counted = timed.rows.groupBy(window.alias("_window"), *action.by).agg(*aggregates)
    # A window behind it goes by the same watermark: one of its own would wait for rows that wait for it.
    marks = timed.marks
    edges = [
        timed.back(f.col(f"_window.{inner}")).alias(name, metadata=marks)
        for inner, name in (("start", "window_start"), ("end", "window_end"))
    ]
    return counted.select(*edges, *action.by, *action.aggregate)


def _join(step: str, action: Join, inputs: Mapping[str, DataFrame], shift_ms: int) -> DataFrame:
    (left_name, left), (right_name, right) = inputs.items()
    columns = (left_name, left.columns), (right_name, right.columns)
    condition = f.expr(action.on)
    if action.within_ms is not None and action.time is not None and action.with_time is not None:
        # Where a function gave one side a watermark of Spark's, both sides go by the times as they are.
        if is_sparks(left, action.time) or is_sparks(right, action.with_time):
            shift_ms = 0
        this = event_time(left, action.time, action.late_ms, shift_ms)
        other = event_time(right, action.with_time, action.late_ms, shift_ms)
        if this.shift_ms != other.shift_ms:
            raise StepError(f"step {step}: one side has a watermark of its own: leave withWatermark to the steps")
        left, right = this.rows, other.rows
        within = f.expr(f"interval {action.within_ms} milliseconds")
        here, there = f.col(f"`{left_name}`.`{this.column}`"), f.col(f"`{right_name}`.`{other.column}`")
        condition = condition & (there >= here - within) & (there <= here + within)
    joined = left.alias(left_name).join(right.alias(right_name), condition, action.how)
    return joined.select(*_joined_columns(*columns, action.how))


def _joined_columns(left: tuple[str, list[str]], right: tuple[str, list[str]], how: str) -> list[Column]:
    """The columns of both sides, those of the same name once: to Spark names are the same in any case of letters."""
    (this, here), (other, there) = left, right
    both = {name.lower() for name in here} & {name.lower() for name in there}
    found = []
    for name in here:
        column = f.col(f"`{this}`.`{name}`")
        if how in ("right", "full") and name.lower() in both:
            # A row may lack this side.
            column = f.coalesce(column, f.col(f"`{other}`.`{name}`")).alias(name)
        found.append(column)
    return found + [f.col(f"`{other}`.`{name}`") for name in there if name.lower() not in both and name != ORIGIN]


def _state(step: Step, action: State, rows: Rows, frame: DataFrame) -> DataFrame:
    processor = action.processor or load(step.name, action.python, rows.directory)
    ship(rows.directory)
    made = call(step.name, action.python, processor)
    if not isinstance(made, StatefulProcessor):
        raise StepError(f"step {step.name}: {action.python} is not a StatefulProcessor: derive it from Spark's class")
    mode = "None" if action.time is None else "EventTime"
    (frame,), _ = _with_time(step, rows, [frame], [action.time])
    if action.time is not None:
        timed = event_time(frame, action.time, action.late_ms, rows.shift_ms)
        frame = timed.rows
        if timed.shift_ms:
            made = ShiftedProcessor(made, timed.column, timed.shift_ms)
    grouped = frame.groupBy(*action.by)
    return grouped.transformWithState(
        statefulProcessor=made,
        outputStructType=action.schema,
        outputMode=action.mode.capitalize(),
        timeMode=mode,
    )


def said_of_spark(text: str) -> str:
    """The first line of a message from Spark, with the place in the query, without its SQLSTATE and our own column.

    >>> said_of_spark("[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. SQLSTATE: 42601 (line 2, pos 7)")
    "[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. (line 2, pos 7)"
    """
    line = _SQLSTATE.sub("", text.strip().partition("\n")[0]).rstrip("; ")
    return _OWN_COLUMN.sub("", line)
