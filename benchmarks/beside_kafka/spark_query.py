"""A streaming query from one topic to another, until its standard input ends.

    python -m benchmarks.beside_kafka.spark_query ottla|kafka BOOTSTRAP FROM TO CHECKPOINT [JAR...]

Each micro-batch begins when the one before it has ended, as Spark does without a trigger. Says `running` when the first
one was committed.
"""

from __future__ import annotations

import sys
import time

from benchmarks.beside_kafka.spark_session import quiet_session

FIRST_BATCH_S = 120.0


def main(arguments: list[str]) -> None:
    """Run the query."""
    kind, bootstrap, source, sink, checkpoint, *jars = arguments
    spark = quiet_session(jars)
    rows = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
    writer = (
        rows.load().selectExpr("key", "value").writeStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
    )
    query = writer.option("topic", sink).option("checkpointLocation", checkpoint).start()
    until = time.monotonic() + FIRST_BATCH_S
    while query.lastProgress is None and query.isActive and time.monotonic() < until:
        time.sleep(0.1)
    if not query.isActive:
        raise RuntimeError(f"the query has ended: {query.exception()}")
    print("running", flush=True)
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
