"""One record of 100 bytes in each request: what a request costs, and what a client gets that waits."""

from __future__ import annotations

from benchmarks.beside_kafka import wire
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import ONE_RECORD_A_REQUEST
from benchmarks.beside_kafka.rows.throughput import client_cores
from benchmarks.beside_kafka.session import Session

IN_FLIGHT = ((1000, "pipelined"), (5, "5 in flight"), (1, "1 in flight"))
SECONDS = 5.0
SOMEBODY_ELSE = "not-connected"


def measure(session: Session, broker: Broker) -> None:
    """Rows `one record a request, ...`."""
    for in_flight, name in IN_FLIGHT:
        _measure(session, broker, in_flight, name)
    wire.limit_client(broker.port, SOMEBODY_ELSE, producer_byte_rate=1.0)
    _measure(session, broker, 5, "5 in flight, a quota of another client")


def _measure(session: Session, broker: Broker, in_flight: int, name: str) -> None:
    load = session.load(broker)
    topic, row = f"requests-{name.replace(' ', '-').replace(',', '')}", f"one record a request, {name}"
    session.create_topic(broker, topic)
    session.fill_page_cache()
    # What is queued when the time is over is sent as well: little of it, as with few in flight it takes long.
    settings = {**ONE_RECORD_A_REQUEST, "max.in.flight": str(in_flight)}
    if in_flight < 100:
        settings["queue.buffering.max.messages"] = "100"
    used = session.measure_cpu(broker)
    with session.noting_others(row, broker):
        done = load.produce(topic, settings, size=100, seconds=session.seconds(SECONDS))
    rate, cost = done["records"] / done["seconds"], used().total / done["records"] * 1e6
    session.record(row, "requests/s", rate)
    session.record(row, "broker CPU µs a request", cost)
    session.record(row, *client_cores(done))
    session.say(f"{row}: {rate:,.0f}/s, broker {cost:.1f} µs a request")
