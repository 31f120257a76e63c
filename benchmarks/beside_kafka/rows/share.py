"""A share group (KIP-932): Kafka's own Java consumers accept all records of a topic, one of them and several."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from benchmarks.beside_kafka.aims import CLIENT_CORES
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.process_usage import cpu_seconds
from benchmarks.beside_kafka.session import Session

PROGRAM = Path(__file__).parent.parent / "ShareLoad.java"
CONSUMERS = (1, 4, 16)
PARTITIONS = 4
SIZE = 100
BATCH = 200
"""Records of a batch in the log, or fewer: whole batches are given to a member."""
WARM_UP, RECORDS = 500_000, 1_500_000
SECONDS_MAX = 15.0
PATIENCE_S = 300.0
FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseParallelGC", "-Djava.awt.headless=true")


def measure(session: Session) -> None:
    """Rows `share group, N consumers`."""
    session.fill_page_cache()
    broker = session.new_broker()
    try:
        broker.start()
        session.warm_up(broker)
        for consumers in CONSUMERS:
            _measure(session, broker, consumers)
    finally:
        broker.kill()
        broker.remove()


def _measure(session: Session, broker: Broker, consumers: int) -> None:
    row, topic = f"share group, {consumers} consumer{'s' if consumers > 1 else ''}", f"shared-by-{consumers}"
    warm_up, records = session.count(WARM_UP), session.count(RECORDS)
    session.create_topic(broker, topic, PARTITIONS)
    settings = {"batch.num.messages": str(BATCH)}
    session.load(broker).produce(topic, settings, size=SIZE, count=warm_up + records, partitions=PARTITIONS)
    words = (topic, consumers, warm_up, records, session.seconds(SECONDS_MAX))
    command = ["java", *FLAGS, "-cp", session.kafka_class_path(), str(PROGRAM), broker.bootstrap, *map(str, words)]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as load,
    ):
        assert load.stdout is not None
        if load.stdout.readline() != "begin\n":
            load.kill()
            raise LoadError(f"{row}: {_last_of(said)}")
        used, busy = session.measure_cpu(broker), cpu_seconds(load.pid)
        words_of_end = load.stdout.readline().split()
        cpu, client = used(), cpu_seconds(load.pid) - busy
        load.wait(PATIENCE_S)
        if words_of_end[:1] != ["end"]:
            raise LoadError(f"{row}: {_last_of(said)}")
    count, seconds = int(words_of_end[1]), float(words_of_end[2])
    session.record(row, "records/s", count / seconds)
    session.record(row, "broker CPU µs a record", cpu.total / count * 1e6)
    session.record(row, CLIENT_CORES, client.total / seconds)
    session.say(f"{row}: {count / seconds:,.0f}/s, broker {cpu.total / count * 1e6:.2f} µs a record")


def _last_of(said: object) -> str:
    said.seek(0)  # type: ignore[attr-defined]
    return str(said.read()[-2000:])  # type: ignore[attr-defined]
