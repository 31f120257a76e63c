"""TLS beside plaintext, at the same broker: produce and consume, 1,000 connections, and handshakes beside a load.

One broker has a listener of each kind. TLS is 1.3 with AES-256-GCM on both sides, and the same key and certificate.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.beside_kafka.aims import HANDSHAKES, SHARE_OF_PLAINTEXT, TIMES_ALONE, TLS
from benchmarks.beside_kafka.brokers import LISTENERS, Broker
from benchmarks.beside_kafka.load_generator import LoadError, LoadGenerator
from benchmarks.beside_kafka.rows import connections
from benchmarks.beside_kafka.rows.latency import QUANTILES
from benchmarks.beside_kafka.rows.throughput import record_throughput
from benchmarks.beside_kafka.session import ADMIN_PATIENCE_S, Session
from tests.certificates import Authority
from tools.ports import free_ports

SIZE, RECORDS, SECONDS_MAX, READS = 1_000, 1_500_000, 15.0, 2
WARM_UP_RECORDS = 400_000
PLAIN, ENCRYPTED = "plaintext", "TLS"
CONNECTIONS = 1_000
RATE, PACED_SIZE, PACED_SECONDS, SKIP_SECONDS = 1_000, 100, 8.0, 1.0
A_SECOND = 200
RSA_BITS = 2_048
USER, PASSWORD = "bench", "bench-password"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM_ITERATIONS = 4_096
PATIENCE_S = 60.0
KINDS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "RSA": "SSL", "SASL_SSL": "SASL_SSL"}
"""The listeners and what they speak; that of RSA has another key."""


def measure(session: Session) -> None:
    """Rows `TLS: ...`."""
    session.fill_page_cache()
    ports = dict(zip(KINDS, free_ports(len(KINDS)), strict=True))
    authority_file, settings = _keys(session.work)
    broker = session.new_broker(**settings)
    try:
        _listen(broker, ports)
        broker.start()
        _add_user(broker)
        plain = session.load(broker)
        trusted = {"security.protocol": "ssl", "ssl.ca.location": str(authority_file)}
        secure = {name: LoadGenerator(plain.program, f"127.0.0.1:{ports[name]}", trusted) for name in ("SSL", "RSA")}
        session.warm_up(broker)
        _warm_up(session, broker, secure["SSL"])
        _throughput(session, broker, {PLAIN: plain, ENCRYPTED: secure["SSL"]})
        _connections(session, broker, ports["SASL_SSL"])
        for name, key in (("SSL", "P-256"), ("RSA", f"RSA {RSA_BITS:,}")):
            _handshakes(session, broker, secure[name], ports[name], f"{HANDSHAKES}{key}")
    finally:
        broker.kill()
        broker.remove()


def _keys(work: Path) -> tuple[Path, dict[str, str]]:
    """The authority's certificate, and the settings of the broker that name its keys."""
    authority = Authority()
    curve, factored = work / "curve.pem", work / "rsa.pem"
    authority.identity("broker").write_pem(curve)
    key = rsa.generate_private_key(65_537, RSA_BITS)
    authority.identity("broker", key=key).write_pem(factored)
    return authority.write(work / "authority.pem"), {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(curve),
        "listener.name.rsa.ssl.keystore.type": "PEM",
        "listener.name.rsa.ssl.keystore.location": str(factored),
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.client.auth": "none",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }


def _listen(broker: Broker, ports: dict[str, int]) -> None:
    """Have the broker listen at these ports; the controller of a Kafka has one of its own."""
    broker.port = ports["PLAINTEXT"]
    listeners, kinds = dict(ports), dict(KINDS)
    if broker.target.kind == "kafka":
        (broker.controller_port,) = free_ports(1)
        listeners["CONTROLLER"], kinds["CONTROLLER"] = broker.controller_port, "PLAINTEXT"
    broker.settings[LISTENERS] = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
    broker.settings["listener.security.protocol.map"] = ",".join(f"{name}:{kind}" for name, kind in kinds.items())


def _add_user(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
    user = UserScramCredentialUpsertion(USER, kind, PASSWORD.encode())
    for altered in admin.alter_user_scram_credentials([user], request_timeout=ADMIN_PATIENCE_S).values():
        altered.result()


def _warm_up(session: Session, broker: Broker, load: LoadGenerator) -> None:
    """As a session's, over TLS and not counted."""
    topic, count = "warm-up-tls", session.count(WARM_UP_RECORDS)
    session.create_topic(broker, topic)
    load.produce(topic, size=SIZE, count=count)
    load.consume(topic, count=count)


def _throughput(session: Session, broker: Broker, loads: dict[str, LoadGenerator]) -> None:
    """Both ways by turns, over topics of their own."""
    rates: dict[tuple[str, str], float] = {}
    counts: dict[str, int] = {}
    for way, load in loads.items():
        topic = f"bytes-{way}"
        session.create_topic(broker, topic)
        session.fill_page_cache()
        used = session.measure_cpu(broker)
        done = load.produce(topic, size=SIZE, count=session.count(RECORDS), seconds=SECONDS_MAX)
        record_throughput(session, f"{TLS}produce 1 KB, {way}", done, used())
        rates["produce", way], counts[way] = done["bytes"] / done["seconds"], done["records"]
    _record_share(session, rates, "produce")
    for _ in range(READS):
        for way, load in loads.items():
            used = session.measure_cpu(broker)
            read = load.consume(f"bytes-{way}", count=counts[way])
            record_throughput(session, f"{TLS}consume 1 KB, {way}", read, used())
            rates["consume", way] = read["bytes"] / read["seconds"]
        _record_share(session, rates, "consume")


def _record_share(session: Session, rates: dict[tuple[str, str], float], what: str) -> None:
    secure, plain = (rates[what, way] for way in (ENCRYPTED, PLAIN))
    session.record(f"{TLS}{what} 1 KB, {ENCRYPTED}", SHARE_OF_PLAINTEXT, secure / plain)


def _connections(session: Session, broker: Broker, port: int) -> None:
    """Each with one request in flight, after a handshake and a login, which are not counted among the requests."""
    session.create_topic(broker, connections.TOPIC)
    connections.measure_active(
        session, broker, CONNECTIONS, CONNECTIONS, connections.Secured(f"{TLS}connections: ", port, USER, PASSWORD)
    )


def _handshakes(session: Session, broker: Broker, load: LoadGenerator, port: int, row: str) -> None:
    """Acknowledgements of small requests, one after the other, alone and beside handshakes of others."""
    topic = f"paced-{port}"
    session.create_topic(broker, topic)
    session.fill_page_cache()
    _paced(session, load, topic, 0.25)  # not counted
    used = session.measure_cpu(broker)
    alone = _paced(session, load, topic)
    cost_alone, used = used().total, session.measure_cpu(broker)
    with _shaking_hands(session, port) as done:
        beside = _paced(session, load, topic)
    cost = used().total - cost_alone
    for key, quantile in QUANTILES:
        session.record(row, f"alone, ack {quantile}", alone[key])
        session.record(row, f"ack {quantile}", beside[key])
    session.record(row, f"ack {TIMES_ALONE}", beside["p99_ms"] / alone["p99_ms"])
    session.record(row, "handshakes/s", done["handshakes"] / done["seconds"])
    session.record(row, "broker CPU ms a handshake", max(0.0, cost) / done["handshakes"] * 1e3)
    session.say(
        f"{row}: p99 {alone['p99_ms']:.2f} ms alone, {beside['p99_ms']:.2f} ms beside "
        f"{done['handshakes'] / done['seconds']:.0f} handshakes/s of {max(0.0, cost) / done['handshakes'] * 1e3:.2f} ms"
    )


def _paced(session: Session, load: LoadGenerator, topic: str, part: float = 1.0) -> dict[str, float]:
    seconds, skipped = session.seconds(PACED_SECONDS * part), session.seconds(SKIP_SECONDS)
    acknowledged, _ = load.paced(topic, RATE, seconds, skipped, PACED_SIZE)
    return acknowledged


@contextmanager
def _shaking_hands(session: Session, port: int) -> Iterator[dict[str, float]]:
    """While it lasts; afterwards the dictionary says how many there were in how many seconds."""
    done: dict[str, float] = {}
    process = subprocess.Popen(
        [str(session.program("handshakes")), str(port), str(A_SECOND)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield done
        output, error = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise LoadError(error.strip())
        done.update(json.loads(output))
    finally:
        process.kill()
        process.wait()
