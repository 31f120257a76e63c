"""Counting rows where they pass, as observed metrics of the query: no second pass over the data."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from ottla.pipelines.audit.report import Point, Role

_LOW_BITS = 0xFFFFFFFF


def observe(
    rows: DataFrame,
    point: Point,
    *,
    time: str | Column | None = None,
    where: Column | None = None,
    of: Sequence[str] | None = None,
    also: Sequence[Column] = (),
    parts: Mapping[Role, Column] | None = None,
) -> DataFrame:
    """The same rows, counted and summed at a point; with `where` only those that meet it.

    `time` is a column of event time (a timestamp). The sums are over the columns `of`, or over all. `also` are other
    aggregates, each with a name, that are told with these, and `parts` those rows that are
    also counted and summed by the way that they go out: a second observation would look at each row once more. Each
    point of a query has one name, so a DataFrame that is observed may be used in two branches of it: Spark then counts
    one of them. A batch that `foreachBatch` evaluates twice is counted twice, unless it is persisted.
    """
    hashes = f.xxhash64(*(_hashable(rows, name) for name in of or rows.columns))
    # The two halves by themselves: a sum of 64-bit hashes overflows, which is an error in ANSI mode.
    metrics = {}
    for name, which in {"": where, **{f"{role}:": which for role, which in (parts or {}).items()}}.items():
        metrics[f"{name}rows"] = f.count(f.lit(1)) if which is None else f.count_if(which)
        metrics[f"{name}low"] = _sum(hashes.bitwiseAND(f.lit(_LOW_BITS)), which)
        metrics[f"{name}high"] = _sum(f.shiftrightunsigned(hashes, 32), which)
    if time is not None:
        at = f.unix_millis(f.col(time) if isinstance(time, str) else time)
        chosen = at if where is None else f.when(where, at)
        metrics |= {"first_time_ms": f.min(chosen), "last_time_ms": f.max(chosen)}
    return rows.observe(point.name, *(metric.alias(name) for name, metric in metrics.items()), *also)


def _sum(values: Column, where: Column | None) -> Column:
    return f.sum(values if where is None else f.when(where, values))


def _hashable(rows: DataFrame, name: str) -> Column:
    column = f.col(f"`{name.replace('`', '``')}`")
    return f.to_json(f.struct(column)) if _has_map(rows.schema[name].dataType) else column


def _has_map(kind: DataType) -> bool:
    """Whether there is a part that has no hash: maps are equal in any order, variants in several forms."""
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType | VariantType)
