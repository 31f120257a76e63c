"""What Spark reads and writes a second through `format("ottla")`, with the broker on the same machine.

    .venv/bin/python -m benchmarks.spark_read [--megabytes 200] [--bootstrap HOST:PORT] [--json FILE]

Each figure is the best of a few runs in a warm session on `local[cores]`. Reads go to Spark's `noop` sink, so a figure
is what the source costs, Spark's own side of it included. Peer: on 2 cores with 4 partitions, Spark's Kafka connector
read 0.92 million rows a second at 100 bytes and 0.32 million (320 MB/s) at 1 KB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

RUNS = 4
CORES = os.cpu_count() or 2


@dataclass(frozen=True)
class Row:
    """One measurement."""

    work: str
    rows_per_second: int
    megabytes_per_second: float


@contextmanager
def broker() -> Iterator[str]:
    """A broker of our own, on a free port."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", data, "--kafka", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        yield process.stdout.readline().partition("kafka ")[2].partition(",")[0]
        process.terminate()
        process.wait()


def fill(bootstrap: str, topic: str, partitions: int, size: int, count: int) -> None:
    """A new topic with `count` records of `size` bytes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for creation in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        creation.result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000, "log_level": 2})
    value = b"x" * size
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def session() -> SparkSession:
    """A quiet session on all cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    built = (
        SparkSession.builder.master(f"local[{CORES},4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    return built


def best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of a few runs; the first warms up."""
    took = []
    for _ in range(RUNS):
        began = time.perf_counter()
        run()
        took.append(time.perf_counter() - began)
    return min(took)


def measure(spark: SparkSession, bootstrap: str, megabytes: int) -> Iterator[Row]:
    """All rows of the table."""
    run = int(time.time())

    def read(topic: str, **options: str) -> DataFrame:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        return reader.options(**options).load()

    def to_noop(frame: DataFrame) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    def row(work: str, count: int, size: int, seconds: float) -> Row:
        return Row(work, round(count / seconds), round(count * size / seconds / 1e6, 1))

    for size in (100, 1000):
        topic, count = f"bench-{run}-{size}", megabytes * 1_000_000 // size
        fill(bootstrap, topic, 4, size, count)
        name = f"{size} B, 4 partitions"
        yield row(f"read {name}, 1 task", count, size, best(to_noop(read(topic, tasks="1"))))
        yield row(f"read {name}, {CORES} tasks", count, size, best(to_noop(read(topic))))
        copy = f"{topic}-copy"
        fill(bootstrap, copy, 4, 1, 1)
        writer = read(topic).select("key", "value").write.format("ottla").mode("append")
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", copy)
        yield row(f"read and write {name}", count, size, best(writer.save))
    topic, count = f"bench-{run}-32", 320_000
    fill(bootstrap, topic, 32, 100, count)
    yield row(f"read 100 B, 32 partitions in {CORES} tasks", count, 100, best(to_noop(read(topic))))
    yield row("read 100 B, 32 partitions in 32 tasks", count, 100, best(to_noop(read(topic, minPartitions="32"))))


def main() -> None:
    """Measure, print, and write JSON when asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=200, help="of records for each size")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    spark = session()
    table = Table(title="Spark, best of a few runs", title_justify="left")
    for column in ("work", "rows/s", "MB/s"):
        table.add_column(column, justify="left" if column == "work" else "right")
    rows = []
    with broker() as own:
        for each in measure(spark, arguments.bootstrap or own, arguments.megabytes):
            rows.append(each)
            table.add_row(each.work, f"{each.rows_per_second:,}", f"{each.megabytes_per_second:,.0f}")
    spark.stop()
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
