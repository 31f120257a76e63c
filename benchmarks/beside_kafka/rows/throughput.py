"""Produce and consume as fast as it goes, with librdkafka's default batches, and the broker's CPU a GB."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from benchmarks.beside_kafka.aims import BATCH_KB, CLIENT_CORES
from benchmarks.beside_kafka.batch_sizes import kilobytes_a_batch
from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.process_usage import CpuSeconds
from benchmarks.beside_kafka.session import Session

# Size in bytes, its name, records. Enough for seconds, little enough that the log stays in the page cache.
SIZES = ((100, "100 B", 8_000_000), (1_000, "1 KB", 1_500_000), (10_000, "10 KB", 200_000))
PARTITIONS = (1, 12)
SECONDS_MAX = 20.0
# A read takes a second or two, and whether its client and the broker share a core for that long is chance.
READS = 3


def measure(session: Session, broker: Broker, groups: Set[str]) -> None:
    """Rows `produce SIZE, N partitions` and `consume SIZE`; the same topic is read that was just written."""
    load = session.load(broker)
    for size, name, records in SIZES:
        for partitions in PARTITIONS:
            topic = f"bytes-{size}-{partitions}"
            produced = f"produce {name}, {partitions} partition{'s' if partitions > 1 else ''}"
            consumed = f"consume {name}, {partitions} partitions" if partitions > 1 else f"consume {name}"
            session.create_topic(broker, topic, partitions)
            session.fill_page_cache()
            used = session.measure_cpu(broker)
            done = load.produce(
                topic, size=size, count=session.count(records), seconds=SECONDS_MAX, partitions=partitions
            )
            if "produce" in groups:
                record_throughput(session, produced, done, used())
            if "consume" in groups:
                for _ in range(READS):
                    with session.noting_others(consumed, broker):
                        used = session.measure_cpu(broker)
                        read = load.consume(topic, count=done["records"], partitions=partitions)
                        record_throughput(session, consumed, read, used())
                session.record(consumed, BATCH_KB, kilobytes_a_batch(broker.log_directory, topic))


def record_throughput(session: Session, row: str, done: dict[str, Any], used: CpuSeconds) -> None:
    """MB/s (10^6 bytes of values) and CPU a GB (10^9)."""
    gigabytes = done["bytes"] / 1e9
    session.record(row, "MB/s", gigabytes * 1000 / done["seconds"])
    session.record(row, "broker CPU s/GB", used.total / gigabytes)
    session.record(row, "user s/GB", used.user / gigabytes)
    session.record(row, "system s/GB", used.system / gigabytes)
    session.record(row, *client_cores(done))
    session.say(f"{row}: {gigabytes * 1000 / done['seconds']:,.0f} MB/s, broker {used.total / gigabytes:.2f} s/GB")


def client_cores(done: dict[str, Any]) -> tuple[str, float]:
    """Metric and figure: how many cores the load generator kept busy, which shares them with the broker."""
    return CLIENT_CORES, (done["client_user_s"] + done["client_system_s"]) / done["seconds"]
