"""How long a record takes through a streaming query of Spark's, from its producer to a consumer of its sink."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.session import Session

RATE = 500
"""Records a second."""
WARM_UP_S = 10.0
MEASURED_S = 30.0
PATIENCE_S = 60.0
FROM, TO = "query-source", "query-sink"
ROW = "Spark from topic to topic"


def measure(session: Session, broker: Broker, jars: Sequence[str]) -> None:
    """Row `Spark from topic to topic`: the first micro-batch, of one record; then how long those of 500 a second take,
    each with the time of its send in its value.
    """
    session.create_topic(broker, FROM)
    session.create_topic(broker, TO)
    first = Producer({"bootstrap.servers": broker.bootstrap})
    first.produce(FROM, b"0")
    first.flush()
    # One of its own: what another broker's query has read is not here.
    directory = Path(tempfile.mkdtemp(prefix="query-", dir=session.work))
    checkpoint, said = str(directory / "checkpoint"), directory / "output"
    command = [sys.executable, "-m", "benchmarks.beside_kafka.spark_query", session.target.kind, broker.bootstrap]
    with said.open("wb") as output:
        query = subprocess.Popen(
            [*command, FROM, TO, checkpoint, *jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    try:
        assert query.stdout is not None
        running, _, seconds = query.stdout.readline().partition(" ")
        if running != "running":
            raise LoadError(f"{ROW}: the query did not start")
        latencies = _through(broker.bootstrap, session.seconds(WARM_UP_S), session.seconds(MEASURED_S))
    except LoadError as error:
        raise LoadError(f"{error}\n{said.read_text(errors='replace')[-4000:]}") from None
    finally:
        query.kill()
        query.wait()
        shutil.rmtree(directory, ignore_errors=True)
    p50, p99 = (latencies[int(len(latencies) * share)] * 1_000 for share in (0.5, 0.99))
    session.record(ROW, "first micro-batch s", float(seconds))
    session.record(ROW, "end to end p50 ms", p50)
    session.record(ROW, "end to end p99 ms", p99)
    session.say(f"{ROW}: first micro-batch {float(seconds):.1f} s, end to end p50 {p50:,.0f}, p99 {p99:,.0f} ms")


def _through(bootstrap: str, warm_up_s: float, measured_s: float) -> list[float]:
    """Seconds that each record took, sorted; those sent while the query warmed up are left out."""
    counted_from = time.time() + warm_up_s
    counted_to = counted_from + measured_s
    sender = threading.Thread(target=_send, args=(bootstrap, counted_to))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency", "auto.offset.reset": "earliest"})
    consumer.subscribe([TO])
    sender.start()
    latencies: list[float] = []
    sent = 0.0
    try:
        while sent < counted_to:
            record = consumer.poll(PATIENCE_S)
            if record is None or record.error():
                raise LoadError(f"{ROW}: nothing came out of the query for {PATIENCE_S:.0f} s")
            arrived, sent = time.time(), float(record.value())
            if counted_from <= sent < counted_to:
                latencies.append(arrived - sent)
    finally:
        sender.join()
        consumer.close()
    return sorted(latencies)


def _send(bootstrap: str, until: float) -> None:
    """Records at a fixed rate until a time, and one that says that it is over."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    due = time.time()
    while (now := time.time()) < until:
        if now < due:
            time.sleep(due - now)
        producer.produce(FROM, repr(time.time()).encode())
        producer.poll(0)
        due += 1 / RATE
    producer.flush()
    producer.produce(FROM, repr(until).encode())
    producer.flush()
