"""A share group (KIP-932): Kafka's own Java consumers accept all records of a topic, one of them and several."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.beside_kafka.aims import CLIENT_CORES, OTHERS_CORES
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.process_usage import cpu_seconds, machine_busy_seconds
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
        _load(session, broker, "warm-up", 4)  # not counted: for the JVM's compiler, and the same for everyone
        for consumers in CONSUMERS:
            _measure(session, broker, consumers)
    finally:
        broker.kill()
        broker.remove()


class _Done(NamedTuple):
    """What came, in what time, and the CPU seconds of the broker, of the client, and of all others."""

    records: int
    seconds: float
    broker: float
    client: float
    others: float


def _measure(session: Session, broker: Broker, consumers: int) -> None:
    row = f"share group, {consumers} consumer{'s' if consumers > 1 else ''}"
    done = _load(session, broker, f"shared-by-{consumers}", consumers)
    rate, cost = done.records / done.seconds, done.broker / done.records * 1e6
    session.record(row, "records/s", rate)
    session.record(row, "broker CPU µs a record", cost)
    session.record(row, CLIENT_CORES, done.client / done.seconds)
    session.record(row, OTHERS_CORES, done.others / done.seconds)
    session.say(f"{row}: {rate:,.0f}/s, broker {cost:.2f} µs a record")


def _load(session: Session, broker: Broker, name: str, consumers: int) -> _Done:
    topic, warm_up, records = f"share-{name}", session.count(WARM_UP), session.count(RECORDS)
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
            raise LoadError(f"{topic}: {_last_of(said)}")
        used, client, all_of_them = session.measure_cpu(broker), cpu_seconds(load.pid), machine_busy_seconds()
        words_of_end = load.stdout.readline().split()
        of_broker, of_client = used().total, (cpu_seconds(load.pid) - client).total
        others = max(0.0, machine_busy_seconds() - all_of_them - of_broker - of_client)
        load.wait(PATIENCE_S)
        if words_of_end[:1] != ["end"]:
            raise LoadError(f"{topic}: {_last_of(said)}")
    return _Done(int(words_of_end[1]), float(words_of_end[2]), of_broker, of_client, others)


def _last_of(said: IO[str]) -> str:
    said.seek(0)
    return said.read()[-2000:]
