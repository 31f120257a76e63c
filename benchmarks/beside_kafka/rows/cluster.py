"""Three brokers, each record on all of them: throughput and its cost, latency, a replica that catches up, failover."""

from __future__ import annotations

import time
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.beside_kafka.cluster import COUNT, REPLICATED, Cluster, is_in_sync
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.rows.latency import QUANTILES
from benchmarks.beside_kafka.rows.throughput import record_throughput
from benchmarks.beside_kafka.session import WARM_UP_RECORDS, Session

# Size in bytes, its name, records: seconds for either side, and three times that fits the page cache.
SIZES = ((100, "100 B", 3_000_000), (1_000, "1 KB", 600_000), (10_000, "10 KB", 100_000))
SECONDS_MAX = 20.0
PARTITIONS = 3
RATE, LATENCY_SECONDS, SKIP_SECONDS, LATENCY_SIZE = 1_000, 12.0, 1.0, 100
CATCH_UP_SIZE = 1_000
ROUNDS = 5
SEND_EVERY_S = 0.005
QUIET_S = 0.5
PATIENCE_S = 120.0
PRODUCE, LATENCY = "cluster: produce ", f"cluster: latency at {RATE:,}/s"
CATCH_UP, FAILOVER = "cluster: replica that catches up", "cluster: failover"


def measure(session: Session) -> None:
    """Rows `cluster: ...`, all over one cluster."""
    session.fill_page_cache()
    cluster = session.new_cluster()
    try:
        cluster.start()
        _warm_up(session, cluster)
        _throughput(session, cluster)
        _latency(session, cluster)
        _catch_up(session, cluster)
        _failover(session, cluster)
    finally:
        cluster.kill()
        cluster.remove()


def _new_topic(session: Session, cluster: Cluster, name: str, partitions: int = 1) -> None:
    session.create_topic(cluster, name, partitions, COUNT, **REPLICATED)
    cluster.wait_until(name, is_in_sync, partitions)


def _warm_up(session: Session, cluster: Cluster) -> None:
    load, count = session.load(cluster), session.count(WARM_UP_RECORDS)
    _new_topic(session, cluster, "warm-up", PARTITIONS)
    load.produce("warm-up", size=100, count=count, partitions=PARTITIONS)
    load.consume("warm-up", count=count, partitions=PARTITIONS)


def _throughput(session: Session, cluster: Cluster) -> None:
    load = session.load(cluster)
    for size, name, records in SIZES:
        topic = f"bytes-{size}"
        _new_topic(session, cluster, topic, PARTITIONS)
        session.fill_page_cache()
        used = session.measure_cpu(cluster)
        done = load.produce(topic, size=size, count=session.count(records), seconds=SECONDS_MAX, partitions=PARTITIONS)
        record_throughput(session, f"{PRODUCE}{name}", done, used())


def _latency(session: Session, cluster: Cluster) -> None:
    _new_topic(session, cluster, "paced")
    session.fill_page_cache()
    acknowledged, received = session.load(cluster).paced(
        "paced", RATE, session.seconds(LATENCY_SECONDS), session.seconds(SKIP_SECONDS), LATENCY_SIZE
    )
    for kind, delays in (("ack", acknowledged), ("end to end", received)):
        for key, quantile in QUANTILES:
            session.record(LATENCY, f"{kind} {quantile}", delays[key])
        said = ", ".join(f"{quantile[:-3]} {delays[key]:.2f}" for key, quantile in QUANTILES)
        session.say(f"{LATENCY}: {kind} {said} ms")


def _catch_up(session: Session, cluster: Cluster) -> None:
    """A follower is killed, the others take what it misses, and it is started again."""
    topic = "catch-up"
    _new_topic(session, cluster, topic)
    session.fill_page_cache()
    (before,) = cluster.partitions(topic)
    behind = next(number for number in before.isrs if number != before.leader)
    cluster.kill(behind)
    cluster.wait_until(topic, lambda each: each.leader >= 0 and behind not in each.isrs)
    count = session.count(int(session.catch_up_gb * 1e9 / CATCH_UP_SIZE))
    missed = session.load(cluster).produce(topic, size=CATCH_UP_SIZE, count=count)["bytes"]
    begun = time.perf_counter()
    answered = cluster.start_one(behind)
    cluster.wait_until(topic, is_in_sync)
    took = time.perf_counter() - begun
    session.record(CATCH_UP, "MB/s", missed / 1e6 / (took - answered))
    session.record(CATCH_UP, "from its start to in sync s", took)
    session.say(
        f"{CATCH_UP}: {missed / 1e9:.1f} GB at {missed / 1e6 / (took - answered):,.0f} MB/s, in sync {took:.1f} s "
        "after its start"
    )


def _failover(session: Session, cluster: Cluster) -> None:
    """The leader of a partition is killed, again and again; how long until a record sent after that is acknowledged."""
    topic = "failover"
    _new_topic(session, cluster, topic)
    took = []
    for _ in range(max(1, round(ROUNDS * min(1.0, session.scale)))):
        leader = cluster.partitions(topic)[0].leader
        took.append(_until_next_write(cluster, topic, leader))
        session.record(FAILOVER, "until the next acknowledged write s", took[-1])
        cluster.start_one(leader)
        cluster.settle()
    session.record(FAILOVER, "the longest s", max(took))
    session.say(f"{FAILOVER}: {', '.join(f'{each:.2f}' for each in took)} s")


def _until_next_write(cluster: Cluster, topic: str, leader: int) -> float:
    """Seconds from kill -9 of the leader until a record is acknowledged that was given to the client after it."""
    acknowledged: list[float] = []  # when those were sent of which it came, in the order in which it came
    failed: list[str] = []

    def told(sent: float, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            acknowledged.append(sent)
        else:
            failed.append(str(error))

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})

    def send_until(until: float, since: float) -> None:
        while not failed and (not acknowledged or acknowledged[-1] < since):
            if time.perf_counter() > until:
                raise LoadError(f"no record of {topic} was acknowledged in {PATIENCE_S:.0f} s")
            sent = time.perf_counter()
            producer.produce(topic, bytes(LATENCY_SIZE), on_delivery=partial(told, sent))
            while (left := sent + SEND_EVERY_S - time.perf_counter()) > 0:
                producer.poll(left)

    send_until(time.perf_counter() + PATIENCE_S, time.perf_counter() + QUIET_S)
    killed = time.perf_counter()
    cluster.kill(leader)
    send_until(killed + PATIENCE_S, killed)
    took = time.perf_counter() - killed
    producer.flush(PATIENCE_S)
    if failed:
        raise LoadError(f"{len(failed)} records of {topic} failed, the first: {failed[0]}")
    return took
