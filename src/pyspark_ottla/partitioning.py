"""Rows dealt out to tasks by the partition they are for: in one transaction, a partition is one task's."""

from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from ottla.native import murmur2

_POSITIVE = 0x7FFFFFFF


def by_partition(frame: DataFrame, partitions: int, tasks: int | None = None) -> DataFrame:
    """The frame with a column `partition`, and all rows of a topic's partition in one task.

    `partitions` is how many the topic has. The partition is that which Java clients choose by the key; rows without
    one are dealt out by their values. A column `partition` that is there already is kept where it is not null. There
    are `tasks` tasks, by default as many as the session has cores, and no more than partitions.
    """
    session = frame.sparkSession
    if tasks is None:
        tasks = min(partitions, int(session.conf.get("spark.sql.shuffle.partitions") or partitions))

    def of_keys(keys: pa.Array) -> pa.Array:
        return pa.array([(murmur2(key) & _POSITIVE) % partitions for key in keys.to_pylist()], pa.int32())

    of_key = cast("Any", arrow_udf)(of_keys, "int")

    of_value = f.pmod(f.hash("value"), f.lit(partitions)).cast("int")
    chosen = of_value
    if "key" in frame.columns:
        key = f.coalesce(f.col("key").cast("binary"), f.lit(b""))
        chosen = f.when(f.col("key").isNull(), of_value).otherwise(of_key(key))
    if "partition" in frame.columns:
        chosen = f.coalesce(f.col("partition"), chosen)
    together = ["topic", "partition"] if "topic" in frame.columns else ["partition"]
    return frame.withColumn("partition", chosen).repartition(tasks, *together)
