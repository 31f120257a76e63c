"""Computes which rows of a batch production would drop as late, duplicate or without a time."""

from collections.abc import Iterable

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampNTZType, TimestampType

from ottla.pipelines.audit.late import DUPLICATE
from ottla.pipelines.compiler.plan import Compiled
from ottla.pipelines.compiler.sources import REASON, union
from ottla.pipelines.compiler.steps import AHEAD, BEFORE_1970, NO_TIME
from ottla.pipelines.compiler.times import ahead
from ottla.pipelines.spec.lineage import above, furthest_ahead_ms, shift_years
from ottla.pipelines.spec.model import Deduplicate, Join, PipelineSpec, Step, Window

LATE = "late if they come in a micro-batch after the newest row"
LETTER = "dead letter"
OTHERS = "; others for other reasons"


class Drop(Struct, frozen=True):
    """A number of dropped rows, with step and reason."""

    step: str
    reason: str
    rows: int

    def __str__(self) -> str:
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        if self.reason.startswith(LETTER):
            return f"{self.step}: production sets {rows} aside: {self.reason}"
        return f"{self.step}: production drops {rows}: {self.reason}"


def expected_drops(compiled: Compiled, *, sinks: bool = False) -> list[Drop]:
    """The drops of each source and step of a compiled batch, in one job; with `sinks` those of the sinks too."""
    spec = compiled.spec
    counts = [frame for step in spec.steps if step.name in compiled.rows for frame in _of_step(compiled, step)]
    counts += [
        refused.agg(f.count(f.lit(1)).alias("rows"), _one_of(REASON).alias("reason"))
        .select(f.lit(name).alias("step"), "reason", f.col("rows").cast("bigint"))
        .where("rows > 0")
        for name, refused in {**compiled.refused, **(_of_sinks(compiled) if sinks else {})}.items()
    ]
    if not counts:
        return []
    order = [*spec.sources, *(each.name for each in (*spec.steps, *spec.sinks))]
    found = [Drop(row["step"], row["reason"], row["rows"]) for row in union(counts).where("rows > 0").collect()]
    return sorted(found, key=lambda each: (order.index(each.step), each.reason))


def _of_sinks(compiled: Compiled) -> dict[str, DataFrame]:
    return {sink.name: compiled.judged(sink).where(f.col(REASON).isNotNull()) for sink in compiled.spec.sinks}


def _of_step(compiled: Compiled, step: Step) -> Iterable[DataFrame]:
    columns = [getattr(step.action, "time", None)]
    if isinstance(step.action, Join):
        columns.append(step.action.with_time)
    sides = [
        (compiled.rows[name], f"`{kind.name}`")
        for name, column in zip(step.inputs, columns, strict=False)
        for kind in compiled.rows[name].schema
        if column is not None
        and kind.name.lower() == column.lower()
        and isinstance(kind.dataType, TimestampType | TimestampNTZType)
    ]
    if not sides:
        return
    ahead_ms = furthest_ahead_ms(compiled.spec)
    newest = [rows.where(~ahead(f.col(at), ahead_ms)).agg(f.max(_micros(at))).scalar() for rows, at in sides]
    # The watermark of two streams is that of the one that is behind.
    bound = (newest[0] if len(newest) == 1 else f.least(*newest)) - f.lit(_delay_ms(compiled.spec, step) * 1000)
    kept = f.lit(0).cast("bigint")
    for rows, at in sides:
        reasons = {NO_TIME: f.col(at).isNull(), AHEAD: ahead(f.col(at), ahead_ms)}
        if not shift_years(compiled.spec):
            reasons[BEFORE_1970] = f.coalesce(_micros(at) <= 0, f.lit(False))
        gone = f.lit(False)
        for reason in reasons.values():
            gone = gone | reason
        late = ~gone & (_last_micros(step, at) <= bound)
        aggregates = {**reasons, LETTER if step.letters_late_rows else LATE: late}
        named = [
            f.struct(f.lit(_said(name)).alias("reason"), f.count_if(which).alias("rows"))
            for name, which in aggregates.items()
        ]
        yield _rows_of(step, rows.agg(f.array(*named).alias("all")))
        kept = kept + rows.where(~gone).agg(f.count(f.lit(1))).scalar()
    if isinstance(step.action, Deduplicate):
        out = compiled.rows[step.name].agg((kept - f.count(f.lit(1))).alias("rows"))
        yield out.select(f.lit(step.name).alias("step"), f.lit(DUPLICATE).alias("reason"), "rows")


def _one_of(reason: str) -> Column:
    """The first reason of refused rows, and whether there are others: each may quote its row."""
    others = f.when(f.min(reason) != f.max(reason), OTHERS).otherwise("")
    return f.concat(f.lit(f"{LETTER}: "), f.min(reason), others)


def _said(reason: str) -> str:
    return f"{LETTER}: {LATE}" if reason == LETTER else reason


def _rows_of(step: Step, counted: DataFrame) -> DataFrame:
    each = counted.select(f.explode("all").alias("each"))
    return each.select(f.lit(step.name).alias("step"), f.col("each.reason"), f.col("each.rows"))


def _micros(at: str) -> Column:
    return f.unix_micros(f.col(at).cast("timestamp"))


def _last_micros(step: Step, at: str) -> Column:
    """Up to which watermark a row is in time."""
    if not isinstance(step.action, Window):
        return _micros(at)
    slide_us, every_us = (step.action.slide_ms or step.action.every_ms) * 1000, step.action.every_ms * 1000
    return _micros(at) - f.pmod(_micros(at), f.lit(slide_us)) + f.lit(every_us)


def _delay_ms(spec: PipelineSpec, step: Step) -> int:
    """The delay of the watermark: that of the first step of a chain that goes by time."""
    before = above(spec.inputs(), step.name)
    for each in (*(other for other in spec.steps if other.name in before), step):
        if getattr(each.action, "time", None) is not None:
            return each.action.within_ms if isinstance(each.action, Deduplicate) else getattr(each.action, "late_ms", 0)
    return 0
