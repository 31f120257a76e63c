"""Each kind of step as what it does to DataFrames.

One function a kind. Rows are a stream or a batch, and the result is of the same kind: of a batch the watermark means
nothing, windows give all their rows at once, and of the rows of a key the first one stays.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.window import Window as SqlWindow

from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.expectations import expect
from ottla.pipelines.compiler.origin import ORIGIN, with_origin
from ottla.pipelines.compiler.python_modules import StepError, call, load, ship
from ottla.pipelines.spec.model import Deduplicate, Expect, Join, Python, Sql, State, Step, Window

_WATERMARK = "spark.watermarkDelayMs"
"""The mark that Spark leaves on a column of event time."""
_SQLSTATE = re.compile(r" SQLSTATE: \w+")
_OWN_COLUMN = re.compile(rf", (?:`\w+`\.)?`?{ORIGIN}`?(?=[\]),])|(?<=[\[(])(?:`\w+`\.)?`?{ORIGIN}`?, ")
"""In a list of columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What steps read: the rows of sources and earlier steps by name, which are also views of the session."""

    spark: SparkSession
    directory: Path
    audit: AuditPoints = NO_AUDIT
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def add(self, name: str, rows: DataFrame) -> None:
        """Give later steps these rows under a name."""
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
            return _deduplicate(step.action, inputs[0]), None
        case Window():
            return _window(step.action, inputs[0]), None
        case Join():
            return _join(step.action, dict(zip(step.inputs, inputs, strict=True))), None
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


def _deduplicate(action: Deduplicate, rows: DataFrame) -> DataFrame:
    if rows.isStreaming:
        return watermarked(rows, action.time, action.within_ms).dropDuplicatesWithinWatermark([*action.by])
    order = SqlWindow.partitionBy(*action.by).orderBy(action.time)
    return rows.withColumn("_nth", f.row_number().over(order)).where("_nth = 1").drop("_nth")


def _window(action: Window, rows: DataFrame) -> DataFrame:
    late = watermarked(rows, action.time, action.late_ms)
    slide = None if action.slide_ms is None else _interval(action.slide_ms)
    window = f.window(action.time, _interval(action.every_ms), slide)
    aggregates = [f.expr(expression).alias(name) for name, expression in action.aggregate.items()]
    counted = late.groupBy(window.alias("_window"), *action.by).agg(*aggregates)
    edges = [f.col("_window.start").alias("window_start"), f.col("_window.end").alias("window_end")]
    return counted.select(*edges, *action.by, *action.aggregate)


def _join(action: Join, inputs: Mapping[str, DataFrame]) -> DataFrame:
    (left_name, left), (right_name, right) = inputs.items()
    condition = f.expr(action.on)
    if action.within_ms is not None and action.time is not None and action.with_time is not None:
        left = watermarked(left, action.time, action.late_ms)
        right = watermarked(right, action.with_time, action.late_ms)
        within = f.expr(f"interval {action.within_ms} milliseconds")
        here, there = f.col(f"`{left_name}`.`{action.time}`"), f.col(f"`{right_name}`.`{action.with_time}`")
        condition = condition & (there >= here - within) & (there <= here + within)
    joined = left.alias(left_name).join(right.alias(right_name), condition, action.how)
    return joined.select(*_joined_columns((left_name, left.columns), (right_name, right.columns), action.how))


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
        raise StepError(f"step {step.name}: {action.python} is no StatefulProcessor: derive it from Spark's class")
    mode = "None" if action.time is None else "EventTime"
    timed = frame if action.time is None else watermarked(frame, action.time, action.late_ms)
    grouped = timed.groupBy(*action.by)
    return grouped.transformWithState(
        statefulProcessor=made,
        outputStructType=action.schema,
        outputMode=action.mode.capitalize(),
        timeMode=mode,
    )


def watermarked(rows: DataFrame, column: str, delay_ms: int) -> DataFrame:
    """The rows with a watermark on a column; one that it has already stays: Spark allows one for each column."""
    if not rows.isStreaming:
        return rows
    # Names of columns are the same to Spark in any case of letters, and one that is not there it names itself.
    found = [each for each in rows.schema if each.name.lower() == column.lower()]
    if any(_WATERMARK in (each.metadata or {}) for each in found):
        return rows
    return rows.withWatermark(column, _interval(delay_ms))


def _interval(ms: int) -> str:
    return f"{ms} milliseconds"


def said_of_spark(text: str) -> str:
    """The line of a message of Spark's, with the place in the query, without the number of its kind and our own column.

    >>> said_of_spark("[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. SQLSTATE: 42601 (line 2, pos 7)")
    "[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. (line 2, pos 7)"
    """
    line = _SQLSTATE.sub("", text.strip().partition("\n")[0]).rstrip("; ")
    return _OWN_COLUMN.sub("", line)
