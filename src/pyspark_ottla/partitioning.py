"""Distributes rows to tasks by partition: in a transaction, only one task may write to a partition."""

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from ottla.native import murmur2

_POSITIVE = 0x7FFFFFFF


def by_partition(frame: DataFrame, partitions: int | Mapping[str, int], tasks: int | None = None) -> DataFrame:
    """The frame with a column `partition`, and all rows of a topic's partition in one task.

    `partitions` is how many the topic has; where rows name their topics, how many each of them has. The partition is
    that which Java clients choose by the key; rows without one are dealt out by their values. A column `partition` that
    is there already is kept where it is not null. There are `tasks` tasks, by default as many as the session has cores,
    and no more than partitions. Rows of one partition that one task has read stay in their order.
    """
    session = frame.sparkSession
    most = partitions if isinstance(partitions, int) else sum(partitions.values())
    if tasks is None:
        tasks = int(session.conf.get("spark.sql.shuffle.partitions") or most)

    def of_keys(keys: pa.Array) -> pa.Array:
        return pa.array([murmur2(key) & _POSITIVE for key in keys.to_pylist()], pa.int32())

    hashed = f.pmod(f.hash("value"), f.lit(_POSITIVE))
    if "key" in frame.columns:
        key = f.coalesce(f.col("key").cast("binary"), f.lit(b""))
        hashed = f.when(f.col("key").isNull(), hashed).otherwise(cast("Any", arrow_udf)(of_keys, "int")(key))
    chosen = (hashed % _count(partitions)).cast("int")
    if "partition" in frame.columns:
        chosen = f.coalesce(f.col("partition"), chosen)
    together = ["topic", "partition"] if "topic" in frame.columns else ["partition"]
    return frame.withColumn("partition", chosen).repartition(min(tasks, most), *together)


def _count(partitions: int | Mapping[str, int]) -> Column:
    """How many partitions the topic of a row has; null for another topic."""
    if isinstance(partitions, int):
        return f.lit(partitions)
    return f.coalesce(*(f.when(f.col("topic") == topic, f.lit(count)) for topic, count in partitions.items()))
