"""The Spark data source `format("ottla")`: topics as DataFrames, without a JAR.

Spark finds packages whose names begin with `pyspark_` and uses their `DefaultSource`. No registration is necessary.
See docs/spark.md.
"""

from typing import TYPE_CHECKING, Any

from pyspark_ottla.lag import lag, lag_metrics
from pyspark_ottla.source import OttlaDataSource as DefaultSource
from pyspark_ottla.spark_refusals import explain_refusals
from pyspark_ottla.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark_ottla.partitioning import by_partition
    from pyspark_ottla.progress_listener import commit_progress
    from pyspark_ottla.shipping import ship

__all__ = ["DefaultSource", "by_partition", "commit_progress", "lag", "lag_metrics", "ship", "worker_python"]

explain_refusals()


def __getattr__(name: str) -> Any:
    # Spark imports this package in each of its processes, and only the driver has a use for these.
    if name == "by_partition":
        from pyspark_ottla.partitioning import by_partition

        return by_partition
    if name == "commit_progress":
        from pyspark_ottla.progress_listener import commit_progress

        return commit_progress
    if name == "ship":
        from pyspark_ottla.shipping import ship

        return ship
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
