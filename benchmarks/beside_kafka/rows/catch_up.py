"""A consumer that reads what the page cache no longer holds, and those beside it who read what has just come."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.beside_kafka.aims import DD, SHARE_OF_DD, TIMES_ALONE
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadGenerator
from benchmarks.beside_kafka.rows.latency import QUANTILES, SETTINGS
from benchmarks.beside_kafka.rows.latency import SIZE as TAIL_SIZE
from benchmarks.beside_kafka.rows.throughput import client_cores
from benchmarks.beside_kafka.session import Session
from benchmarks.beside_kafka.stalls import watching

TOPIC, TAIL_TOPIC = "cold", "tail"
SIZE, RECORDS = 1_000, 3_000_000
READS = 3
RATE, SECONDS, SKIP_SECONDS = 1_000, 10.0, 1.0
COLD, TAIL = "cold catch-up 1 KB", f"tail at {RATE:,}/s"
BESIDE = f"{TAIL} beside a catch-up reader"
_READ_BYTES = 1 << 20


def measure(session: Session) -> None:
    """Rows `cold catch-up` and `tail`: what is read from the disk was dropped from the page cache before."""
    broker = session.new_broker()
    try:
        broker.start()
        session.warm_up(broker)
        load = session.load(broker)
        session.create_topic(broker, TOPIC)
        session.create_topic(broker, TAIL_TOPIC)
        session.fill_page_cache()
        count = load.produce(TOPIC, size=SIZE, count=session.count(RECORDS))["records"]
        files = sorted(broker.log_directory.glob(f"{TOPIC}-*/*.log"))
        disk = median(_read_by_itself(files) for _ in range(READS))
        for _ in range(READS):
            _read_cold(session, broker, load, files, count, disk)
        alone = _tail(session, load, TAIL)
        with ThreadPoolExecutor(1) as beside:
            done = threading.Event()
            reading = beside.submit(_read_again_and_again, load, files, count, done)
            try:
                moved = _tail(session, load, BESIDE)
            finally:
                done.set()
            session.record(BESIDE, "catch-up MB/s", reading.result())
        for kind, p99_ms in moved.items():
            session.record(BESIDE, f"{kind} {TIMES_ALONE}", p99_ms / alone[kind])
    finally:
        broker.kill()
        broker.remove()


def drop_from_page_cache(files: list[Path]) -> None:
    """The next read of these files comes from the disk."""
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_through(files: list[Path]) -> float:
    """MB/s of a plain read of these files, one after the other, as `dd bs=1M` does it."""
    buffer = bytearray(_READ_BYTES)
    size, begun = 0, time.perf_counter()
    for path in files:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                size += count
    return size / 1e6 / (time.perf_counter() - begun)


def _read_by_itself(files: list[Path]) -> float:
    drop_from_page_cache(files)
    return read_through(files)


def _read_cold(
    session: Session, broker: Broker, load: LoadGenerator, files: list[Path], count: int, disk: float
) -> None:
    drop_from_page_cache(files)
    used = session.measure_cpu(broker)
    with watching(session.program("stalls")) as stalls:
        done = load.consume(TOPIC, count=count)
    session.record_stalls(COLD, stalls)
    rate = done["bytes"] / 1e6 / done["seconds"]
    on_disk = sum(path.stat().st_size for path in files) / 1e6 / done["seconds"]
    session.record(COLD, "MB/s", rate)
    session.record(COLD, SHARE_OF_DD, on_disk / disk)
    session.record(COLD, DD, disk)
    session.record(COLD, "broker CPU s/GB", used().total / (done["bytes"] / 1e9))
    session.record(COLD, *client_cores(done))
    session.say(f"{COLD}: {rate:,.0f} MB/s, {on_disk / disk:.0%} of the {disk:,.0f} MB/s of dd")


def _tail(session: Session, load: LoadGenerator, row: str) -> dict[str, float]:
    """The p99 of acknowledgements and from end to end, in ms."""
    with watching(session.program("stalls")) as stalls:
        acknowledged, received = load.paced(
            TAIL_TOPIC, RATE, session.seconds(SECONDS), session.seconds(SKIP_SECONDS), TAIL_SIZE, SETTINGS[RATE]
        )
    session.record_stalls(row, stalls)
    for kind, delays in (("ack", acknowledged), ("end to end", received)):
        for key, quantile in QUANTILES:
            session.record(row, f"{kind} {quantile}", delays[key])
        said = ", ".join(f"{quantile[:-3]} {delays[key]:.2f}" for key, quantile in QUANTILES)
        session.say(f"{row}: {kind} {said} ms")
    return {"ack": acknowledged["p99_ms"], "end to end": received["p99_ms"]}


def _read_again_and_again(load: LoadGenerator, files: list[Path], count: int, done: threading.Event) -> float:
    """MB/s over the reads that came to their end."""
    size = seconds = 0.0
    while not seconds or not done.is_set():
        drop_from_page_cache(files)
        read = load.consume(TOPIC, count=count)
        size += read["bytes"] / 1e6
        seconds += read["seconds"]
    return size / seconds
