"""The Spark session of the Spark rows: the same for both formats, but for the jars of Spark's own connector."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import SparkSession

from pyspark_ottla import worker_python


def quiet_session(jars: Sequence[str]) -> SparkSession:
    """All cores of this machine; it has run one job, so that its own start is not measured."""
    # As docs/spark.md says; Spark's own connector needs no Python.
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{os.cpu_count() or 2}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).write.format("noop").mode("overwrite").save()
    return spark
