"""What a broker costs before and after any work: start-up, idle memory and CPU, memory after the load."""

from __future__ import annotations

import time

from benchmarks.beside_kafka.brokers import Broker, StartTimes
from benchmarks.beside_kafka.process_usage import peak_mb, pss_mb
from benchmarks.beside_kafka.session import Session

IDLE_SECONDS = 6.0
SETTLE_SECONDS = 3.0


def record_start(session: Session, row: str, times: StartTimes) -> None:
    """From the start of the process."""
    session.record(row, "first answer s", times.first_answer)
    session.record(row, "first acknowledged record s", times.first_acknowledgement)
    session.say(
        f"{row}: answers after {times.first_answer:.2f} s, acknowledges after {times.first_acknowledgement:.2f} s"
    )


def measure_idle(session: Session, broker: Broker) -> None:
    """Memory, and CPU while nobody asks for anything."""
    time.sleep(session.seconds(SETTLE_SECONDS))
    used, begun = session.measure_cpu(broker), time.perf_counter()
    time.sleep(session.seconds(IDLE_SECONDS))
    share = used().total / (time.perf_counter() - begun) * 100
    memory = pss_mb(broker.pid)
    session.record("idle", "PSS MB", memory)
    session.record("idle", "CPU % of a core", share)
    session.say(f"idle: {memory:.0f} MB, {share:.1f} % of a core")


def measure_after_load(session: Session, broker: Broker) -> None:
    """Memory when everything before has been done, and the peak on the way."""
    memory, peak = pss_mb(broker.pid), peak_mb(broker.pid)
    session.record("memory after the load", "PSS MB", memory)
    session.record("memory after the load", "peak (VmHWM) MB", peak)
    session.say(f"memory after the load: {memory:.0f} MB, peak {peak:.0f} MB")
