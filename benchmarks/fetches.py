"""What one small fetch request costs the broker: of a record that is there, and of one that is waited for.

    .venv/bin/python -m benchmarks.fetches [--requests 40000] [--rounds 20] [--set key=value]

The client is a socket that sends frames made beforehand, so that what is measured is the broker. Its CPU is from
/proc/PID/stat. Each fetch names one partition and gets one batch of one record of 100 bytes. Those that wait do so on
connections of their own; all of them are answered by one record that is produced.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.broker import cpu_seconds, running_broker
from benchmarks.many_connections import connect, in_turns, raise_open_files_limit
from benchmarks.requests import frame as produce_frame
from benchmarks.requests import receive
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSION = 11
TOPIC = "fetches"
ROWS = ((500, 1, 1), (5, 1, 2), (1, 1, 4), (1, 100, 2), (1, 1_000, 1))
"""Requests in flight on each connection, connections, and the share of all requests that are sent."""
WAITING = (100, 1_000)
SETTLED_S = 0.2


def frame(offset: int, max_wait_ms: int = 0) -> bytes:
    """A Fetch of the batch at an offset."""
    wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1)
    topics = (FetchTopic(topic=TOPIC, partitions=(wanted,)),)
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
    return encode_request(1, "bench", request, VERSION)


def run(address: str, requests: int, in_flight: int) -> float:
    """Seconds for `requests`, `in_flight` at a time."""
    with connect(address, 0) as sock:
        block, buffer = frame(0) * in_flight, bytearray()
        begun = time.perf_counter()
        for _ in range(requests // in_flight):
            sock.sendall(block)
            receive(sock, buffer, in_flight)
        return time.perf_counter() - begun


def run_many(address: str, requests: int, connections: int) -> float:
    """Seconds for `requests`, one at a time on each of the connections."""
    sockets = [connect(address, number) for number in range(connections)]
    seconds = in_turns(sockets, frame(0), requests).seconds
    for sock in sockets:
        sock.close()
    return seconds


def wait_in_rounds(sockets: list[socket.socket], producer: socket.socket, first: int, rounds: int) -> float:
    """Seconds from the record that is produced to the last answer that has it, over all rounds."""
    seconds, buffer = 0.0, bytearray()
    record = produce_frame(TOPIC, 1)
    for offset in range(first, first + rounds):
        request = frame(offset, 60_000)
        for sock in sockets:
            sock.sendall(request)
        time.sleep(SETTLED_S)  # nothing says that all of them wait
        begun = time.perf_counter()
        producer.sendall(record)
        receive(producer, buffer, 1)
        for sock in sockets:
            receive(sock, buffer, 1)
        seconds += time.perf_counter() - begun
    return seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=20, help="of fetches that wait")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    arguments = parser.parse_args()
    raise_open_files_limit()
    table = Table("fetches", "requests/s", "broker CPU, us a request: user", "system")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "data", arguments.set) as (pid, address, _),
        connect(address, 0) as producer,
    ):
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result()
        producer.sendall(produce_frame(TOPIC, 1))
        receive(producer, bytearray(), 1)
        run(address, 2_000, 100)

        def add(name: str, requests: int, seconds: float, before: tuple[float, float]) -> None:
            user, system = ((end - begin) / requests * 1e6 for begin, end in zip(before, cpu_seconds(pid), strict=True))
            table.add_row(name, f"{requests / seconds:,.0f}", f"{user:.1f}", f"{system:.1f}")

        for in_flight, connections, share in ROWS:
            requests, before = arguments.requests // share, cpu_seconds(pid)
            if connections > 1:
                add(f"of {connections:,} connections", requests, run_many(address, requests, connections), before)
            else:
                add(f"{in_flight} in flight", requests, run(address, requests, in_flight), before)
        end = 1
        for count in WAITING:
            sockets = [connect(address, number) for number in range(count)]
            rounds = arguments.rounds
            before = cpu_seconds(pid)
            seconds = wait_in_rounds(sockets, producer, end, rounds)
            add(f"{count:,} that wait", count * rounds, seconds, before)
            end += rounds
            for sock in sockets:
                sock.close()
    Console().print(table)


if __name__ == "__main__":
    main()
