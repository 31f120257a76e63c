"""What one who means no harm notices while others do: latencies of a producer and a consumer beside each attack.

    .venv/bin/python -m benchmarks.disturbance [--seconds 10] [--json FILE] [--only NAME]

The good client sends a record, waits until it is acknowledged (acks=all), fetches it, and begins again after a few
milliseconds; it runs in this process, each attack in one of its own, the broker in a third. The first row is without an
attack. All three share the machine's cores: an attack that keeps a core busy costs the good client time even where the
broker does nothing for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import resource
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.broker import pss_mb, running_broker
from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.hostile.raw_peer import RawPeer

WIDE_PARTITIONS = 500
PAUSE_S = 0.002


@dataclass(frozen=True)
class Row:
    """Milliseconds over one attack, and the broker's memory at its end."""

    attack: str
    rounds: int
    produce_p50: float
    produce_p99: float
    produce_p999: float
    fetch_p50: float
    fetch_p99: float
    fetch_p999: float
    broker_pss_mb: float


# Attacks: each is given the port and goes on until it is killed.


def many(port: int, count: int, receive_buffer_bytes: int = 0) -> list[RawPeer]:
    """Connections from many addresses."""
    return [RawPeer(port, f"127.0.0.{2 + number % 200}", receive_buffer_bytes) for number in range(count)]


def push(peer: RawPeer, data: bytes) -> None:
    """Send what the socket takes at once."""
    peer.sock.setblocking(False)
    with contextlib.suppress(OSError):
        peer.sock.send(data)


def again(port: int, number: int, data: bytes) -> None:
    """One connection that sends something and waits for the end of it."""
    with contextlib.suppress(OSError), RawPeer(port, f"127.0.0.{2 + number % 200}") as peer:
        peer.send(data)
        peer.closed_with()


def endless() -> Iterator[int]:
    """Numbers, for ever."""
    number = 0
    while True:
        yield number
        number += 1


def idle_connections(port: int) -> None:
    held = many(port, 10_000)
    while held:
        time.sleep(1)


def announcements_of_100_mb(port: int) -> None:
    held = many(port, 2_000)
    for peer in held:
        push(peer, struct.pack(">i", 100 << 20) + b"\0")
    while held:
        time.sleep(1)


def halves_of_large_requests(port: int) -> None:
    for _ in endless():
        held = many(port, 100)
        for peer in held:
            push(peer, struct.pack(">i", 50 << 20))
        for _ in range(10):
            for peer in held:
                push(peer, bytes(1 << 20))
        for peer in held:
            peer.close()


def slow_senders(port: int) -> None:
    held = many(port, 1_000)
    request = encode_request(7, "slow", MetadataRequest(topics=None), 12)
    for number in endless():
        for peer in held:
            push(peer, request[number % len(request) :][:1])
        time.sleep(0.01)


def readers_that_never_read(port: int) -> None:
    request = encode_request(7, "deaf", MetadataRequest(topics=None), 12) * 20
    held = many(port, 1_000, receive_buffer_bytes=4096)
    while held:
        for peer in held:
            push(peer, request)
        time.sleep(0.1)


def connection_storm(port: int) -> None:
    for number in endless():
        peer = RawPeer(port, f"127.0.0.{2 + number % 200}")
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()


def http_requests(port: int) -> None:
    for number in endless():
        again(port, number, b"GET / HTTP/1.1\r\n\r\n")


def bad_batches(port: int) -> None:
    batch = bytearray(build_batch([(1_000, None, bytes(100_000), [])]))
    batch[-1] ^= 1
    data = (PartitionProduceData(index=0, records=bytes(batch)),)
    request = ProduceRequest(acks=-1, topic_data=(TopicProduceData(name="wide", partition_data=data),))
    message = encode_request(7, "bad", request, 9)
    with RawPeer(port) as peer:
        for _ in endless():
            peer.send(message)
            peer.receive_frame()


def giant_metadata_requests(port: int) -> None:
    topics = tuple(MetadataRequestTopic(name=f"{number:x}") for number in range(131_000))
    message = encode_request(7, "wide", MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    with RawPeer(port) as peer:
        peer.sock.settimeout(None)
        for _ in endless():
            peer.send(message)
            peer.receive_frame()


def fetches_that_wait_for_ever(port: int) -> None:
    wanted = tuple(FetchPartition(partition=index, partition_max_bytes=1) for index in range(WIDE_PARTITIONS))
    good = FetchTopic(topic="good", partitions=(FetchPartition(partition=0, partition_max_bytes=1),))
    request = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=2**31 - 1,
        max_bytes=2**31 - 1,
        session_epoch=-1,
        topics=(FetchTopic(topic="wide", partitions=wanted), good),
    )
    held = many(port, 100)
    for peer in held:
        push(peer, encode_request(7, "patient", request, 11))
    while held:
        time.sleep(1)


ATTACKS: tuple[Callable[[int], None], ...] = (
    idle_connections,
    announcements_of_100_mb,
    halves_of_large_requests,
    slow_senders,
    readers_that_never_read,
    connection_storm,
    http_requests,
    bad_batches,
    giant_metadata_requests,
    fetches_that_wait_for_ever,
)


class GoodClient:
    """Produces a record, fetches it, and takes the time of both."""

    def __init__(self, port: int) -> None:
        self._producer, self._consumer = RawPeer(port), RawPeer(port)
        for peer in (self._producer, self._consumer):
            peer.sock.settimeout(120)
            peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        batch = bytes(build_batch([(1_000, None, bytes(100), [])]))
        data = (PartitionProduceData(index=0, records=batch),)
        self._request = ProduceRequest(
            acks=-1, timeout_ms=100_000, topic_data=(TopicProduceData(name="good", partition_data=data),)
        )

    def round(self) -> tuple[float, float]:
        """Milliseconds of a produce and of the fetch after it."""
        begun = time.perf_counter()
        ((answer,),) = (each.partition_responses for each in self._producer.ask(self._request, 9).responses)
        produced = time.perf_counter()
        assert answer.error_code == 0, answer
        partition = FetchPartition(partition=0, fetch_offset=answer.base_offset, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=10_000,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(FetchTopic(topic="good", partitions=(partition,)),),
        )
        ((read,),) = (each.partitions for each in self._consumer.ask(fetch, 11).responses)
        assert read.records
        return (produced - begun) * 1000, (time.perf_counter() - produced) * 1000


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(name: str, attack: Callable[[int], None] | None, seconds: float, data: Path) -> Row:
    """One row: a broker of its own, so that no attack pays for another."""
    with running_broker(data, []) as (pid, address, _):
        port = int(address.rpartition(":")[2])
        with RawPeer(port) as peer:
            topics = tuple(
                CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
                for topic, count in (("good", 1), ("wide", WIDE_PARTITIONS))
            )
            peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
        client = GoodClient(port)
        for _ in range(100):
            client.round()
        attacker = multiprocessing.Process(target=attack, args=(port,), daemon=True) if attack else None
        if attacker is not None:
            attacker.start()
        times: list[tuple[float, float]] = []
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            times.append(client.round())
            time.sleep(PAUSE_S)
        memory = pss_mb(pid)
        if attacker is not None:
            attacker.kill()
            attacker.join()
    produced, fetched = [each for each, _ in times], [each for _, each in times]
    shares = (0.5, 0.99, 0.999)
    latencies = [quantile(values, share) for values in (produced, fetched) for share in shares]
    return Row(name, len(times), *latencies, memory)


def show(rows: list[Row]) -> None:
    """A table of all rows."""
    table = Table(title="Milliseconds of a good client beside each attack")
    for column in ("attack", "rounds", *("p50", "p99", "p99.9") * 2, "broker PSS, MB"):
        table.add_column(column, justify="left" if column == "attack" else "right")
    for row in rows:
        values: list[Any] = list(asdict(row).values())
        table.add_row(values[0], str(values[1]), *(f"{value:,.2f}" for value in values[2:-1]), f"{values[-1]:,.0f}")
    Console().print(table, "the first three columns of times: produce, acknowledged; the others: fetch of that record")


def main() -> None:
    """Measure every attack, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each attack lasts")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    parser.add_argument("--only", choices=[attack.__name__ for attack in ATTACKS], help="one attack")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        rows.append(measure("none", None, options.seconds, Path(directory) / "none"))
        for attack in ATTACKS:
            if options.only in (None, attack.__name__):
                name = attack.__name__
                rows.append(measure(name.replace("_", " "), attack, options.seconds, Path(directory) / name))
    show(rows)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
