"""A streaming query from one topic to another, until its standard input ends.

    python -m benchmarks.beside_kafka.spark_query ottla|kafka BOOTSTRAP FROM TO CHECKPOINT [JAR...]

Each micro-batch begins when the one before it has ended, as Spark does without a trigger. FROM has a record. Says
`running SECONDS` when the first micro-batch has ended: the seconds since the session was up.
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
    begun = time.monotonic()
    rows = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
    rows = rows.option("startingOffsets", "earliest")
    writer = (
        rows.load().selectExpr("key", "value").writeStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
    )
    query = writer.option("topic", sink).option("checkpointLocation", checkpoint).start()
    until = begun + FIRST_BATCH_S
    while not any(batch["numInputRows"] for batch in query.recentProgress) and query.isActive:
        if time.monotonic() > until:
            raise RuntimeError(f"there was no micro-batch within {FIRST_BATCH_S:.0f} s")
        time.sleep(0.05)
    if not query.isActive:
        raise RuntimeError(f"the query has ended: {query.exception()}")
    print(f"running {time.monotonic() - begun:.2f}", flush=True)
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
