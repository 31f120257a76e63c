"""10 to 10,000 connections at once, each with one request of one record in flight; and 20,000 that are idle."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.beside_kafka import wire
from benchmarks.beside_kafka.aims import CONNECTIONS, IDLE_COUNT, IDLE_MEMORY
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.process_usage import pss_mb
from benchmarks.beside_kafka.session import Session
from benchmarks.many_connections import connections_allowed, slab_kb
from ottla.protocol.frame import encode_request

STORMS = (10, 100, 1_000, 5_000)
MANY = 10_000
IDLE = 20_000
IDLE_SECONDS = 5.0
SECONDS = 5.0
AT_ONCE = 40
"""Of those that are no storm: fewer than either broker lets wait to be accepted."""
TOPIC = "connections"
# Length, correlation id, tagged fields, one topic, its name, one partition, its index; then its error code.
ERROR_AT = 4 + 4 + 1 + 1 + (1 + len(TOPIC)) + 1 + 4
TIME_LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Secured:
    """Connections over TLS that log in by SCRAM-SHA-512, at a port of their own; how the name of their row begins."""

    row: str
    port: int
    user: str
    password: str


def measure(session: Session) -> None:
    """Rows `connections: N` and `connections: idle`, on one broker, with as many open files as may be."""
    limits_before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed, limit = connections_allowed()
    broker = session.new_broker()
    try:
        broker.start()
        session.warm_up(broker)
        session.create_topic(broker, TOPIC)
        # First: what busy connections have taken and left would be used again.
        _measure_idle(session, broker, min(IDLE, allowed))
        if allowed < IDLE:
            session.say(f"connections beyond {allowed:,} are left out: {limit:,} open files are the limit here")
        for count in STORMS:
            measure_active(session, broker, count, at_once=count)
        measure_active(session, broker, min(MANY, allowed), at_once=AT_ONCE)
    finally:
        broker.kill()
        broker.remove()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits_before)


@contextmanager
def _connections(
    session: Session, broker: Broker, count: int, at_once: int, secured: Secured | None = None
) -> Iterator[subprocess.Popen[str]]:
    frame = session.work / "frame"
    frame.write_bytes(encode_request(1, "bench", wire.produce_request(TOPIC), wire.PRODUCE_VERSION))
    words = (
        broker.port if secured is None else secured.port,
        count,
        at_once,
        session.seconds(SECONDS),
        frame,
        ERROR_AT,
    )
    login = () if secured is None else (secured.user, secured.password)
    program = session.program("connections" if secured is None else "secure_connections")
    process = subprocess.Popen(
        [str(program), *map(str, words), *login],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _opened(process: subprocess.Popen[str]) -> dict[str, float]:
    """What it says when all connections have had their first answer."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        raise LoadError(process.stderr.read().strip())
    opened: dict[str, float] = json.loads(line)
    return opened


def _scaled(session: Session, count: int) -> int:
    return max(1, int(count * min(1.0, session.scale * 10)))


def measure_active(session: Session, broker: Broker, count: int, at_once: int, secured: Secured | None = None) -> None:
    row = f"{CONNECTIONS if secured is None else secured.row}{count:,}"
    wanted = _scaled(session, count)
    session.fill_page_cache()
    before = pss_mb(broker.pid)
    with _connections(session, broker, wanted, at_once, secured) as process:
        opened = _opened(process)
        open_kilobytes = (pss_mb(broker.pid) - before) * 1024 / wanted
        used = session.measure_cpu(broker)
        output, error = process.communicate("go\n", timeout=TIME_LIMIT_S)
        if process.returncode:
            raise LoadError(error.strip())
    done = json.loads(output)
    rate = done["requests"] / done["seconds"]
    if secured is not None:
        session.record(row, "all logged in, one after the other s", opened["answered_s"])
    elif at_once == count:
        session.record(row, "all answered s", opened["answered_s"])
    session.record(row, "memory KB a connection", open_kilobytes)
    session.record(row, "requests/s", rate)
    session.record(row, "ack p50 ms", done["p50_ms"])
    session.record(row, "ack p99 ms", done["p99_ms"])
    session.record(row, "ack p99.9 ms", done["p999_ms"])
    session.record(row, "broker CPU µs a request", used().total / done["requests"] * 1e6)
    session.say(f"{row}: {rate:,.0f} requests/s, p50 {done['p50_ms']:.1f} ms, p99 {done['p99_ms']:.1f} ms")


def _measure_idle(session: Session, broker: Broker, count: int) -> None:
    """Each has asked for the versions once. The kernel's part is half of what its slabs grow by: both ends are here."""
    row, wanted = "connections: idle", _scaled(session, count)
    memory, slab = pss_mb(broker.pid), slab_kb()
    with _connections(session, broker, wanted, AT_ONCE) as process:
        _opened(process)
        each, in_kernel = (pss_mb(broker.pid) - memory) * 1024 / wanted, (slab_kb() - slab) / wanted / 2
        used, seconds = session.measure_cpu(broker), session.seconds(IDLE_SECONDS)
        time.sleep(seconds)
        share = used().total / seconds * 100
    session.record(row, IDLE_COUNT, wanted)
    session.record(row, IDLE_MEMORY, each)
    session.record(row, "kernel KB an idle connection", in_kernel)
    session.record(row, "CPU % of a core", share)
    session.say(
        f"{row}: {wanted:,} of {each:.2f} KB each, and {in_kernel:.2f} KB of the kernel; {share:.1f} % of a core"
    )
