"""Ten thousand partitions on three brokers, each on all of them: to create, a broker's death, everybody's, memory."""

from __future__ import annotations

import time

from confluent_kafka.admin import PartitionMetadata

from benchmarks.beside_kafka.cluster import COUNT, REPLICATED, Cluster, is_in_sync, is_led
from benchmarks.beside_kafka.process_usage import cpu_seconds, pss_mb
from benchmarks.beside_kafka.session import Session

PARTITIONS = 10_000
SIZE = 100
TOPIC = "many"


def measure(session: Session, partitions: int = PARTITIONS) -> None:
    """The row `cluster: 10,000 partitions`."""
    wanted = max(COUNT, int(partitions * min(1.0, session.scale)))
    row = f"cluster: {partitions:,} partitions"
    session.fill_page_cache()
    cluster = session.new_cluster()

    def record(metric: str, value: float) -> None:
        session.record(row, metric, value)
        session.say(f"{row}: {metric} {value:,.1f}")

    try:
        cluster.start()
        begun = time.perf_counter()
        session.create_topic(cluster, TOPIC, wanted, COUNT, **REPLICATED)
        cluster.wait_until(TOPIC, is_in_sync, wanted)
        record("create s", time.perf_counter() - begun)
        session.load(cluster).produce(TOPIC, size=SIZE, count=1, partitions=wanted)  # after one for each partition
        record("PSS MB of all brokers", sum(map(pss_mb, cluster.pids)))
        record("a broker is killed, until all are led s", _kill_one(cluster, wanted))
        led, in_sync, used = _kill_all(cluster, wanted)
        record("all are killed, until all are led s", led)
        record("all are killed, until all are in sync s", in_sync)
        record("all are killed, CPU of all brokers until then s", used)
        record("PSS MB of all brokers after that", sum(map(pss_mb, cluster.pids)))
    finally:
        cluster.kill()
        cluster.remove()


def _kill_one(cluster: Cluster, count: int) -> float:
    """Seconds until others lead what it led; then it is back and everything in sync."""
    killed = cluster.partitions(TOPIC)[0].leader

    def is_led_by_another(partition: PartitionMetadata) -> bool:
        return is_led(partition) and partition.leader != killed

    begun = time.perf_counter()
    cluster.kill(killed)
    cluster.wait_until(TOPIC, is_led_by_another, count)
    took = time.perf_counter() - begun
    cluster.start_one(killed)
    cluster.wait_until(TOPIC, is_in_sync, count)
    return took


def _kill_all(cluster: Cluster, count: int) -> tuple[float, float, float]:
    """Seconds from the start of all until all partitions are led, until they are in sync, and of CPU until then."""
    cluster.kill()
    begun = cluster.start_again()
    cluster.wait_until(TOPIC, is_led, count)
    led = time.perf_counter() - begun
    cluster.wait_until(TOPIC, is_in_sync, count)
    return led, time.perf_counter() - begun, sum(cpu_seconds(pid).total for pid in cluster.pids)
