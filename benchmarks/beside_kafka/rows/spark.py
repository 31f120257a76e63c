"""Spark's batch reads: `format("ottla")` of Ottla, Spark's own connector of Kafka, the broker on the same cores."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.session import Session
from tools.peers import spark_connector_jars

SIZES = ((100, "100 B", 3_000_000), (1_000, "1 KB", 600_000))
PARTITIONS = 4
RUNS = 4
TIME_LIMIT_S = 600


def measure(session: Session) -> None:
    """Rows `Spark reads SIZE`: the first read of a Spark session, and the fastest of the ones after."""
    broker = session.new_broker()
    kafka = session.target.kind == "kafka"
    jars = [str(jar) for jar in spark_connector_jars()] if kafka else []
    try:
        broker.start()
        session.warm_up(broker)
        for size, name, records in SIZES:
            topic, row = f"spark-{size}", f"Spark reads {name}"
            session.create_topic(broker, topic, PARTITIONS)
            session.fill_page_cache()
            # One record for each partition goes before those that are counted.
            total = session.count(records) + PARTITIONS
            session.load(broker).produce(topic, size=size, count=total - PARTITIONS, partitions=PARTITIONS)
            command = [sys.executable, "-m", "benchmarks.beside_kafka.spark_reader", session.target.kind]
            done = subprocess.run(
                [*command, broker.bootstrap, topic, str(RUNS), *jars],
                capture_output=True,
                text=True,
                check=False,
                timeout=TIME_LIMIT_S,
            )
            if done.returncode:
                raise LoadError(f"{row}: {done.stderr[-2000:]}")
            said = json.loads(done.stdout.splitlines()[-1])
            if said["rows"] != total:
                raise LoadError(f"{row}: {said['rows']} rows were read of {total}")
            first, warm = said["seconds"][0], min(said["seconds"][1:])
            session.record(row, "warm rows/s", total / warm)
            session.record(row, "first read s", first)
            session.say(f"{row}: {total / warm:,.0f} rows/s warm, first read {first:.1f} s")
    finally:
        broker.kill()
        broker.remove()
