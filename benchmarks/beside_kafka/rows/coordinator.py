"""A broker whose groups have committed millions of times is killed: how long until it answers for them again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.session import Session
from ottla.client import BlockingClient
from ottla.model.topic_partition import TopicPartition

COMMITS = 2_000_000
PARTITIONS = 100
GROUPS = 200
CLIENTS = 16
TOPIC = "committed"
ROW = f"{COMMITS:,} offset commits"
API_TIMEOUT_MS = 300_000


def measure(session: Session) -> None:
    """Row `2,000,000 offset commits`: groups without members commit all partitions of a topic, again and again."""
    broker = session.new_broker()
    try:
        broker.start()
        session.create_topic(broker, TOPIC, PARTITIONS)
        session.fill_page_cache()
        rounds = max(1, session.count(COMMITS) // (PARTITIONS * GROUPS))
        begun = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as clients:
            for _ in clients.map(lambda first: _commit(broker, first, rounds), range(CLIENTS)):
                pass
        committed = time.perf_counter() - begun
        broker.kill()
        begun = time.perf_counter()
        started = broker.start()
        first, last = _until_answered(broker, begun, rounds)
        kept = sum(path.stat().st_size for path in broker.log_directory.glob("__consumer_offsets-*/*.log")) / 1e6
        session.record(ROW, "commits/s", rounds * PARTITIONS * GROUPS / committed)
        session.record(ROW, "after kill -9, first acknowledged record s", started.first_acknowledgement)
        session.record(ROW, "after kill -9, a group's offsets s", first)
        session.record(ROW, "after kill -9, all groups' offsets s", last)
        session.record(ROW, "log MB", kept)
        session.say(
            f"{ROW}: after kill -9 a group's offsets in {first:.1f} s, all in {last:.1f} s, {kept:,.0f} MB of log"
        )
    finally:
        broker.kill()
        broker.remove()


def _group(number: int) -> str:
    return f"group-{number}"


def _commit(broker: Broker, first: int, rounds: int) -> None:
    """Every CLIENTS-th group commits `rounds` times."""
    with BlockingClient(broker.bootstrap, api_timeout_ms=API_TIMEOUT_MS) as client:
        for number in range(1, rounds + 1):
            offsets = {TopicPartition(TOPIC, partition): number for partition in range(PARTITIONS)}
            for group in range(first, GROUPS, CLIENTS):
                client.commit_offsets(_group(group), offsets)


def _until_answered(broker: Broker, begun: float, rounds: int) -> tuple[float, float]:
    """When the first and the last group had been answered for, in seconds from the start of the process.

    Raises:
        LoadError: a commit is not there.
    """
    times = []
    with BlockingClient(
        broker.bootstrap, api_timeout_ms=API_TIMEOUT_MS, retry_backoff_ms=10, retry_backoff_max_ms=20
    ) as client:
        for group in range(GROUPS):
            found = client.committed_offsets(_group(group))
            if len(found) != PARTITIONS or any(each.offset != rounds for each in found.values()):
                raise LoadError(f"{_group(group)} has not what it committed: {len(found)} partitions")
            times.append(time.perf_counter() - begun)
    return times[0], times[-1]
