"""The Spark pipeline of the demo: what a user would write.

```
            flights.events ─► decode ─┬─ good ─► watermark ─► window per carrier and hour ─► flights.delays, Parquet
                                ▲     └─ bad ──► reason and origin in headers ─────────────► flights.dead-letters
 flights.airlines, .airports ───┘
```
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.decode import decode, reason
from examples.flights.topics import AIRLINES, AIRPORTS, DEAD_LETTERS, DELAYS, EVENTS

LATEST = "10 days"
"""How long a window waits for its last events, counted from the newest departure that anybody has heard of.

A flight's schedule is known a day ahead, the last word about it may come 34 hours after it was due to leave, and the
partitions of the topic are read in step by the number of their events, not by time: one may be days ahead of another.
"""
OFFSETS_PER_BATCH = 200_000
LATE_MINUTES = 15

RESULT_NUMBERS = (
    *("scheduled", "departed", "arrived", "departed_late", "departure_delay_min", "longest_departure_delay_min"),
    *("arrival_delay_min", "to_unlisted_airports"),
)
"""The columns of the result beside `hour`, `carrier` and `airline`."""


class Pipeline:
    """The queries over one broker; their results and checkpoints lie below the two directories."""

    def __init__(self, spark: SparkSession, bootstrap: str, table: Path, checkpoints: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._table = table
        self._checkpoints = checkpoints
        self._decoded = decode(self._events(), self._names(AIRLINES), self._names(AIRPORTS))

    def start_delays(self) -> StreamingQuery:
        """Read all events that are there now, write the windows that are over, and end."""
        return (
            delays(self._decoded.where("good"))
            .writeStream.foreachBatch(self._write_delays)
            .queryName("delays")
            .option("checkpointLocation", str(self._checkpoints / "delays"))
            .trigger(availableNow=True)
            .start()
        )

    def start_dead_letters(self) -> StreamingQuery:
        """Read all events that are there now, write those that are refused to their topic, and end."""
        return (
            dead_letters(self._decoded.where("not good"))
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", DEAD_LETTERS)
            .queryName("dead letters")
            .option("checkpointLocation", str(self._checkpoints / "dead-letters"))
            .trigger(availableNow=True)
            .start()
        )

    def _events(self) -> DataFrame:
        return (
            self._spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", EVENTS)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", OFFSETS_PER_BATCH)
            .load()
        )

    def _names(self, topic: str) -> DataFrame:
        """A compacted topic as a table: of each code the last name, without the codes that were taken back."""
        return (
            self._spark.read.format("ottla")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .load()
            .groupBy(f.col("key").cast("string").alias("code"))
            .agg(f.max_by("value", "offset").alias("value"))
            .where("value is not null")
            .select("code", f.from_json(f.col("value").cast("string"), "name string")["name"].alias("name"))
            # Read once, not again for every micro-batch.
            .cache()
        )

    def _write_delays(self, windows: DataFrame, batch: int) -> None:
        """One micro-batch of windows to both places. A repeated micro-batch replaces its files and its records."""
        windows = windows.persist()
        if not windows.isEmpty():
            windows.coalesce(1).write.mode("overwrite").parquet(str(self._table / f"batch={batch:05}"))
            (
                windows.select(
                    f.format_string("%s %s", "carrier", f.date_format("hour", "yyyy-MM-dd'T'HH'Z'")).alias("key"),
                    f.to_json(f.struct(*windows.columns), {"ignoreNullFields": "false"}).alias("value"),
                )
                .write.format("ottla")
                .option("kafka.bootstrap.servers", self._bootstrap)
                .option("topic", DELAYS)
                .mode("append")
                .save()
            )
        windows.unpersist()


def delays(events: DataFrame) -> DataFrame:
    """What happened to the flights that each carrier scheduled for each hour, once nothing more can come."""
    scheduled, departed, arrived = (f.col("event") == event for event in ("scheduled", "departed", "arrived"))
    return (
        events.withWatermark("scheduled_at", LATEST)
        .groupBy(f.window("scheduled_at", "1 hour"), "carrier", "airline")
        .agg(
            f.count_if(scheduled).alias("scheduled"),
            f.count_if(departed).alias("departed"),
            f.count_if(arrived).alias("arrived"),
            f.count_if(departed & (f.col("delay_min") >= LATE_MINUTES)).alias("departed_late"),
            f.sum(f.when(departed, f.col("delay_min"))).alias("departure_delay_min"),
            f.max(f.when(departed, f.col("delay_min"))).alias("longest_departure_delay_min"),
            f.sum(f.when(arrived, f.col("delay_min"))).alias("arrival_delay_min"),
            f.count_if(scheduled & f.col("airport").isNull()).alias("to_unlisted_airports"),
        )
        .withColumn("hour", f.col("window.start"))
        .select("hour", "carrier", "airline", *RESULT_NUMBERS)
    )


def dead_letters(refused: DataFrame) -> DataFrame:
    """The refused records as they came, with the reason and where they came from in headers."""
    headers = {
        "error.reason": reason(),
        "error.topic": f.col("topic"),
        "error.partition": f.col("partition"),
        "error.offset": f.col("offset"),
        "error.timestamp": f.unix_millis("timestamp"),
    }
    return refused.select(
        "key",
        "value",
        f.array(
            *(
                f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
                for name, value in headers.items()
            )
        ).alias("headers"),
    )
