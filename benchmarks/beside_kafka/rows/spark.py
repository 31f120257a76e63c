"""Spark beside each broker on the same cores: `format("ottla")` with Ottla, Spark's own connector with Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.rows import spark_latency
from benchmarks.beside_kafka.session import Session
from tools.peers import spark_connector_jars

READS = ((100, "100 B", 3_000_000), (1_000, "1 KB", 600_000))
READ_PARTITIONS = 4
WRITES = ((100, "100 B", 1, 2_000_000), (100, "100 B", 50, 2_000_000), (1_000, "1 KB", 4, 500_000))
EXACTLY_ONCE = (100, "100 B", 12, 1_000_000)
TASKS = (1, 2, 4)
RUNS = 4
TIME_LIMIT_S = 600


def measure(session: Session) -> None:
    """Rows `Spark reads SIZE` and `Spark writes SIZE, N partitions`: the first job of a Spark session, and the fastest
    of the ones after; `Spark from topic to topic`. `Spark writes exactly once` is of Ottla alone.
    """
    broker = session.new_broker()
    jars = [str(jar) for jar in spark_connector_jars()] if session.target.kind == "kafka" else []
    try:
        broker.start()
        session.warm_up(broker)
        for size, name, records in READS:
            _reads(session, broker, jars, size, name, records)
        for size, name, partitions, records in WRITES:
            _writes(session, broker, jars, size, name, partitions, records)
        if session.target.kind == "ottla":
            for tasks in TASKS:
                _writes(session, broker, jars, *EXACTLY_ONCE, tasks)
        spark_latency.measure(session, broker, jars)
    finally:
        broker.kill()
        broker.remove()


def _reads(session: Session, broker: Broker, jars: Sequence[str], size: int, name: str, records: int) -> None:
    topic, row = f"spark-{size}", f"Spark reads {name}"
    session.create_topic(broker, topic, READ_PARTITIONS)
    session.fill_page_cache()
    # One record for each partition goes before those that are counted.
    total = session.count(records) + READ_PARTITIONS
    session.load(broker).produce(topic, size=size, count=total - READ_PARTITIONS, partitions=READ_PARTITIONS)
    said = _run(row, "spark_reader", [session.target.kind, broker.bootstrap, topic, str(RUNS), *jars])
    if said["rows"] != total:
        raise LoadError(f"{row}: {said['rows']} rows were read of {total}")
    first, warm = said["seconds"][0], min(said["seconds"][1:])
    session.record(row, "warm rows/s", total / warm)
    session.record(row, "first read s", first)
    session.say(f"{row}: {total / warm:,.0f} rows/s warm, first read {first:.1f} s")


def _writes(
    session: Session,
    broker: Broker,
    jars: Sequence[str],
    size: int,
    name: str,
    partitions: int,
    records: int,
    tasks: int = 0,
) -> None:
    topic = f"spark-written-{size}-{partitions}-{tasks}"
    row = f"Spark writes {name}, {partitions} partition{'s' if partitions > 1 else ''}"
    if tasks:
        row = f"Spark writes exactly once, {name}, {partitions} partitions, {tasks} task{'s' if tasks > 1 else ''}"
    session.create_topic(broker, topic, partitions)
    session.fill_page_cache()
    rows = session.count(records)
    numbers = [str(partitions), str(tasks)]
    arguments = [session.target.kind, broker.bootstrap, str(size), str(rows), str(RUNS), topic, *numbers, *jars]
    seconds = _run(row, "spark_writer", arguments)["seconds"]
    written = _records(broker, topic, partitions)
    # A transaction leaves a marker in each partition that it wrote to.
    if not 0 <= written - rows * RUNS <= (partitions * RUNS if tasks else 0):
        raise LoadError(f"{row}: {written} rows are in the topic of {rows * RUNS}")
    first, warm = seconds[0], min(seconds[1:])
    session.record(row, "warm rows/s", rows / warm)
    session.record(row, "warm MB/s", rows * size / warm / 1e6)
    session.say(f"{row}: {rows / warm:,.0f} rows/s warm, {rows * size / warm / 1e6:,.0f} MB/s, first {first:.1f} s")


def _records(broker: Broker, topic: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "counting"})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, each)) for each in range(partitions)]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def _run(row: str, program: str, arguments: Sequence[str]) -> dict[str, list[float]]:
    command = [sys.executable, "-m", f"benchmarks.beside_kafka.{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
    if done.returncode:
        raise LoadError(f"{row}: {done.stderr[-2000:]}")
    said: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return said
