"""10 to 5,000 connections at once, each with one request of one record in flight."""

from __future__ import annotations

import json
import subprocess

from benchmarks.beside_kafka import wire
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.process_usage import pss_mb
from benchmarks.beside_kafka.session import Session
from ottla.protocol.frame import encode_request

COUNTS = (10, 100, 1_000, 5_000)
SECONDS = 5.0
TOPIC = "connections"
# Length, correlation id, tagged fields, one topic, its name, one partition, its index; then its error code.
ERROR_AT = 4 + 4 + 1 + 1 + (1 + len(TOPIC)) + 1 + 4
TIME_LIMIT_S = 300


def measure(session: Session) -> None:
    """Rows `connections: N`, on one broker."""
    broker = session.new_broker()
    try:
        broker.start()
        session.warm_up(broker)
        session.create_topic(broker, TOPIC)
        for count in COUNTS:
            _measure(session, broker, count)
    finally:
        broker.kill()
        broker.remove()


def _measure(session: Session, broker: Broker, count: int) -> None:
    frame = session.work / "frame"
    frame.write_bytes(encode_request(1, "bench", wire.produce_request(TOPIC), wire.PRODUCE_VERSION))
    row, wanted = f"connections: {count:,}", max(1, int(count * min(1.0, session.scale * 10)))
    session.fill_page_cache()
    before = pss_mb(broker.pid)
    command = [str(session.program("connections")), str(broker.port), str(wanted), str(session.seconds(SECONDS))]
    process = subprocess.Popen(
        [*command, str(frame), str(ERROR_AT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        opened = process.stdout.readline()
        open_kilobytes = (pss_mb(broker.pid) - before) * 1024 / wanted
        used = session.measure_cpu(broker)
        output, error = process.communicate("go\n", timeout=TIME_LIMIT_S)
        if process.returncode:
            raise LoadError(error.strip())
    finally:
        process.kill()
        process.wait()
    done = json.loads(output)
    rate = done["requests"] / done["seconds"]
    session.record(row, "all answered s", json.loads(opened)["answered_s"])
    session.record(row, "memory KB a connection", open_kilobytes)
    session.record(row, "requests/s", rate)
    session.record(row, "ack p50 ms", done["p50_ms"])
    session.record(row, "ack p99 ms", done["p99_ms"])
    session.record(row, "ack p99.9 ms", done["p999_ms"])
    session.record(row, "broker CPU µs a request", used().total / done["requests"] * 1e6)
    session.say(f"{row}: {rate:,.0f} requests/s, p50 {done['p50_ms']:.1f} ms, p99 {done['p99_ms']:.1f} ms")
