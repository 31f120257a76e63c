"""What one small produce request costs the broker: pipelined, with a few in flight, and on many connections.

    .venv/bin/python benchmarks/requests.py [--requests 100000] [--set key=value]

The client is a socket that sends frames made beforehand, so that what is measured is the broker. Its CPU is from
/proc/PID/stat.
"""

from __future__ import annotations

import argparse
import socket
import struct
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.broker import cpu_seconds, running_broker
from benchmarks.many_connections import connect, in_turns, raise_open_files_limit
from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROWS = (
    (500, 1, -1, 1),
    (500, 1, 1, 1),
    (5, 1, -1, 10),
    (5, 1, 1, 4),
    (1, 1, -1, 20),
    (1, 1, 1, 10),
    (1, 100, 1, 4),
    (1, 1_000, 1, 4),
    (1, 1_000, -1, 4),
)
"""Requests in flight on each connection, connections, acks, and the share of all requests that are sent."""


def frame(topic: str, acks: int) -> bytes:
    """A Produce request of one record of 100 bytes."""
    batch = bytes(build_batch([(0, None, b"x" * 100, ())]))
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)),)
    return encode_request(1, "bench", ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=data), 9)


def receive(sock: socket.socket, buffer: bytearray, count: int) -> None:
    """Read until `count` responses have come."""
    while count:
        buffer += sock.recv(1 << 20)
        position = 0
        while len(buffer) - position >= 4:
            (size,) = struct.unpack_from(">i", buffer, position)
            if len(buffer) - position - 4 < size:
                break
            position += 4 + size
            count -= 1
        del buffer[:position]


def run(address: str, topic: str, requests: int, in_flight: int, acks: int) -> float:
    """Seconds for `requests`, `in_flight` at a time."""
    host, port = address.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    block = frame(topic, acks) * in_flight
    buffer = bytearray()
    begun = time.perf_counter()
    for _ in range(requests // in_flight):
        sock.sendall(block)
        receive(sock, buffer, in_flight)
    elapsed = time.perf_counter() - begun
    sock.close()
    return elapsed


def run_many(address: str, topic: str, requests: int, connections: int, acks: int) -> float:
    """Seconds for `requests`, one at a time on each of the connections."""
    sockets = [connect(address, number) for number in range(connections)]
    seconds = in_turns(sockets, frame(topic, acks), requests).seconds
    for sock in sockets:
        sock.close()
    return seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--rows", default="", help="some of them, as they are called: 500/1,1x1000/1")
    arguments = parser.parse_args()
    raise_open_files_limit()
    wanted = arguments.rows.split(",") if arguments.rows else None
    table = Table("requests in flight", "acks", "requests/s", "broker CPU, us a request: user", "system")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "data", arguments.set) as (pid, address, _),
    ):
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic("requests", 1, 1)]).values():
            future.result()
        run(address, "requests", 2_000, 100, 1)
        for in_flight, connections, acks, share in ROWS:
            name = f"{in_flight}x{connections}" if connections > 1 else str(in_flight)
            if wanted is not None and f"{name}/{acks}" not in wanted:
                continue
            requests = arguments.requests // share
            before = cpu_seconds(pid)
            if connections > 1:
                seconds = run_many(address, "requests", requests, connections, acks)
            else:
                seconds = run(address, "requests", requests, in_flight, acks)
            after = cpu_seconds(pid)
            user, system = ((after[i] - before[i]) / requests * 1e6 for i in (0, 1))
            kind = "all" if acks < 0 else str(acks)
            table.add_row(name, kind, f"{requests / seconds:,.0f}", f"{user:.1f}", f"{system:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
