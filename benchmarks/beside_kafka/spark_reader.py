"""Reads a topic with Spark a few times, in a process of its own, and prints the seconds of each read as JSON.

    python -m benchmarks.beside_kafka.spark_reader ottla|kafka BOOTSTRAP TOPIC RUNS [JAR...]

Rows go to Spark's `noop` sink: what is timed is the source. The session starts before the clock does.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.beside_kafka.spark_session import quiet_session


def main(arguments: list[str]) -> None:
    """Read and print."""
    source, bootstrap, topic, runs, *jars = arguments
    spark = quiet_session(jars)
    seconds = []
    for _ in range(int(runs)):
        begun = time.perf_counter()
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        reader.option("subscribe", topic).load().write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begun)
    # Beyond noop's silence: the rows must be there.
    rows = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    count = rows.load().count()
    spark.stop()
    print(json.dumps({"seconds": seconds, "rows": count}))


if __name__ == "__main__":
    main(sys.argv[1:])
