"""Reads a topic with Spark a few times, in a process of its own, and prints the seconds of each read as JSON.

    python -m benchmarks.beside_kafka.spark_reader ottla|kafka BOOTSTRAP TOPIC RUNS [JAR...]

Rows go to Spark's `noop` sink: what is timed is the source. The session starts before the clock does.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import SparkSession

FORMATS = {"ottla": "ottla", "kafka": "kafka"}


def main(arguments: list[str]) -> None:
    """Read and print."""
    source, bootstrap, topic, runs, *jars = arguments
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{os.cpu_count() or 2}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).write.format("noop").mode("overwrite").save()
    seconds = []
    for _ in range(int(runs)):
        begun = time.perf_counter()
        reader = spark.read.format(FORMATS[source]).option("kafka.bootstrap.servers", bootstrap)
        reader.option("subscribe", topic).load().write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begun)
    # Beyond noop's silence: the rows must be there.
    rows = spark.read.format(FORMATS[source]).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    count = rows.load().count()
    spark.stop()
    print(json.dumps({"seconds": seconds, "rows": count}))


if __name__ == "__main__":
    main(sys.argv[1:])
