"""Each kind of step as what it does to DataFrames.

One function a kind. Rows are a stream or a batch, and the result is of the same kind: of a batch the watermark means
nothing, windows give all their rows at once, and of the rows of a key the first one stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window as SqlWindow

from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.expectations import expect
from ottla.pipelines.compiler.origin import ORIGIN, with_origin
from ottla.pipelines.compiler.python_modules import StepError, load, ship
from ottla.pipelines.spec.model import Deduplicate, Expect, Join, Python, Sql, State, Step, Window

_WATERMARK = "spark.watermarkDelayMs"
"""The mark that Spark leaves on a column of event time."""


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
        raise StepError(f"step {step.name}: {_first_line(str(error))}") from error


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
            made = function(*inputs)
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
    columns = [_joined_column(name, left_name, right_name, right.columns, action.how) for name in left.columns]
    columns += [f.col(f"`{right_name}`.`{name}`") for name in right.columns if name not in (*left.columns, ORIGIN)]
    return joined.select(*columns)


def _joined_column(name: str, left: str, right: str, right_columns: list[str], how: str) -> Any:
    """A column of this side; where a row may lack this side and both have the column, what the other has."""
    here = f.col(f"`{left}`.`{name}`")
    if how in ("right", "full") and name in right_columns:
        return f.coalesce(here, f.col(f"`{right}`.`{name}`")).alias(name)
    return here


def _state(step: Step, action: State, rows: Rows, frame: DataFrame) -> DataFrame:
    processor = action.processor or load(step.name, action.python, rows.directory)
    ship(rows.directory)
    mode = "None" if action.time is None else "EventTime"
    timed = frame if action.time is None else watermarked(frame, action.time, action.late_ms)
    grouped = timed.groupBy(*action.by)
    return grouped.transformWithState(
        statefulProcessor=processor(),
        outputStructType=action.schema,
        outputMode=action.mode.capitalize(),
        timeMode=mode,
    )


def watermarked(rows: DataFrame, column: str, delay_ms: int) -> DataFrame:
    """The rows with a watermark on a column; one that it has already stays: Spark allows one for each column."""
    if not rows.isStreaming or _WATERMARK in (rows.schema[column].metadata or {}):
        return rows
    return rows.withWatermark(column, _interval(delay_ms))


def _interval(ms: int) -> str:
    return f"{ms} milliseconds"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].partition(" SQLSTATE")[0]
