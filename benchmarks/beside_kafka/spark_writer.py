"""Writes rows to topics with Spark, in a process of its own, and prints the seconds of each write as JSON.

    python -m benchmarks.beside_kafka.spark_writer ottla|kafka BOOTSTRAP SIZE ROWS RUNS TOPIC PARTITIONS TASKS [JAR...]

Rows have a key and a value of SIZE bytes, which Spark makes on the way by putting a number before a constant: that
costs both formats the same, and little. (Padding takes Spark a step for each character, longer than writing them.)
Written at least once where TASKS is 0, else exactly once by so many tasks, which `ottla` alone does.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.beside_kafka.spark_session import quiet_session
from pyspark_ottla import by_partition

NUMBER = 20
"""Characters of the number in a value."""


def main(arguments: list[str]) -> None:
    """Write and print."""
    sink, bootstrap, size, rows, runs, topic, partitions, tasks, *jars = arguments
    spark = quiet_session(jars)
    made = spark.range(int(rows)).selectExpr(
        "cast(id as string) key",
        f"concat(lpad(cast(id as string), {NUMBER}, '0'), repeat('x', {int(size) - NUMBER})) value",
    )
    if int(tasks):
        made = made.coalesce(1) if int(tasks) == 1 else by_partition(made, int(partitions), int(tasks))
    seconds = []
    for run in range(int(runs)):
        begun = time.perf_counter()
        writer = made.write.format(sink).option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        if int(tasks):
            writer = writer.option("mode", "exactly-once").option("transactionalId", f"{topic}-{run}")
        writer.mode("append").save()
        seconds.append(time.perf_counter() - begun)
    spark.stop()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1:])
