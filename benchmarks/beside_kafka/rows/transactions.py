"""Transactions of one producer, one after the other: small ones, and large ones."""

from __future__ import annotations

import time
from statistics import quantiles

from confluent_kafka import Producer

from benchmarks.beside_kafka.aims import CLIENT_CORES
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.session import Session

# Records of a transaction, their size, and how many transactions are counted.
SHAPES = ((10, 100, 2_000), (10_000, 1_000, 100))
WARM_UP = 20
PARTITIONS = 4
SECONDS_MAX = 20.0
PATIENCE_S = 60.0
SETTINGS = {
    "linger.ms": 0,
    "queue.buffering.max.messages": 300_000,
    "queue.buffering.max.kbytes": 262_144,
    "socket.nagle.disable": True,
    "log_level": 2,
}


def measure(session: Session) -> None:
    """Rows `transactions of N records`: begin, produce to all partitions, commit and wait."""
    broker = session.new_broker()
    try:
        broker.start()
        session.warm_up(broker)
        for records, size, count in SHAPES:
            _measure(session, broker, records, size, count)
    finally:
        broker.kill()
        broker.remove()


def _measure(session: Session, broker: Broker, records: int, size: int, count: int) -> None:
    row, topic = f"transactions of {records:,} records of {size:,} B", f"transactions-{records}"
    session.create_topic(broker, topic, PARTITIONS)
    session.fill_page_cache()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, **SETTINGS})
    producer.init_transactions(PATIENCE_S)
    records, value = min(records, max(1, session.count(records) * 10)), bytes(size)
    for _ in range(WARM_UP):
        _transaction(producer, topic, records, value)
    used, busy, begun = session.measure_cpu(broker), time.process_time(), time.perf_counter()
    commits: list[float] = []
    for _ in range(session.count(count)):
        commits.append(_transaction(producer, topic, records, value))
        if time.perf_counter() - begun > SECONDS_MAX:
            break
    seconds = time.perf_counter() - begun
    cpu, rate = used(), len(commits) / seconds
    session.record(row, "transactions/s", rate)
    session.record(row, "records/s", rate * records)
    for name, value_s in (("p50", _quantile(commits, 50)), ("p99", _quantile(commits, 99))):
        session.record(row, f"commit {name} ms", value_s * 1_000)
    session.record(row, "broker CPU ms a transaction", cpu.total / len(commits) * 1_000)
    session.record(row, CLIENT_CORES, (time.process_time() - busy) / seconds)
    session.say(f"{row}: {rate:,.0f} transactions/s, commit p50 {_quantile(commits, 50) * 1_000:.2f} ms")


def _transaction(producer: Producer, topic: str, records: int, value: bytes) -> float:
    """How long the commit took, seconds.

    Raises:
        LoadError: a record was not written.
    """
    failures: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer.begin_transaction()
    for index in range(records):
        producer.produce(topic, value, partition=index % PARTITIONS, on_delivery=on_delivery)
    begun = time.perf_counter()
    producer.commit_transaction(PATIENCE_S)
    if failures:
        raise LoadError(f"a transaction was committed without a record of it: {failures[0]}")
    return time.perf_counter() - begun


def _quantile(values: list[float], percent: int) -> float:
    return values[0] if len(values) == 1 else quantiles(values, n=100, method="inclusive")[percent - 1]
