"""What one small produce request costs the broker: pipelined, with a few in flight, and on many connections.

    .venv/bin/python -m benchmarks.requests [--requests 100000] [--set key=value] [--sasl]

With --sasl every connection logs in by PLAIN, and ACLs say that its user may write.

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

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from rich.console import Console
from rich.table import Table

from benchmarks.broker import cpu_seconds, running_broker
from benchmarks.many_connections import connect, in_turns, raise_open_files_limit
from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

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


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURED = (
    "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.plaintext.plain.sasl.jaas.config={JAAS} user_admin=a user_bench=b;",
    "authorizer.class.name=StandardAuthorizer",
    "super.users=User:admin",
)
ADMIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "a",
}


def log_in(sock: socket.socket) -> None:
    """By PLAIN."""
    for request, version in ((SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(b"\0bench\0b"), 1)):
        sock.sendall(encode_request(1, "bench", request, version))
        receive(sock, bytearray(), 1)


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


def opened(address: str, connections: int, *, sasl: bool) -> list[socket.socket]:
    """Connections that are ready to produce. What it takes to open them is no part of a request."""
    if connections > 1:
        sockets = [connect(address, number) for number in range(connections)]
    else:
        host, port = address.rsplit(":", 1)
        sockets = [socket.create_connection((host, int(port)))]
        sockets[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for sock in sockets if sasl else ():
        log_in(sock)
    return sockets


def run(sockets: list[socket.socket], topic: str, requests: int, in_flight: int, acks: int) -> float:
    """Seconds for `requests`: `in_flight` at a time on one connection, one on each of several."""
    if len(sockets) > 1:
        return in_turns(sockets, frame(topic, acks), requests).seconds
    (sock,) = sockets
    block = frame(topic, acks) * in_flight
    buffer = bytearray()
    begun = time.perf_counter()
    for _ in range(requests // in_flight):
        sock.sendall(block)
        receive(sock, buffer, in_flight)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--rows", default="", help="some of them, as they are called: 500/1,1x1000/1")
    parser.add_argument("--sasl", action="store_true", help="clients log in, and ACLs let them write")
    arguments = parser.parse_args()
    sasl = arguments.sasl
    raise_open_files_limit()
    wanted = arguments.rows.split(",") if arguments.rows else None
    table = Table("requests in flight", "acks", "requests/s", "broker CPU, us a request: user", "system")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "data", [*arguments.set, *(SECURED if sasl else ())]) as (pid, address, _),
    ):
        admin = AdminClient({"bootstrap.servers": address, **(ADMIN if sasl else {})})
        for future in admin.create_topics([NewTopic("requests", 1, 1)]).values():
            future.result()
        if sasl:
            may = AclBinding(
                ResourceType.TOPIC,
                "req",
                ResourcePatternType.PREFIXED,
                "User:bench",
                "*",
                AclOperation.WRITE,
                AclPermissionType.ALLOW,
            )
            for future in admin.create_acls([may]).values():
                future.result()
        run(opened(address, 1, sasl=sasl), "requests", 2_000, 100, 1)
        for in_flight, connections, acks, share in ROWS:
            name = f"{in_flight}x{connections}" if connections > 1 else str(in_flight)
            if wanted is not None and f"{name}/{acks}" not in wanted:
                continue
            requests = arguments.requests // share
            sockets = opened(address, connections, sasl=sasl)
            before = cpu_seconds(pid)
            seconds = run(sockets, "requests", requests, in_flight, acks)
            after = cpu_seconds(pid)
            for sock in sockets:
                sock.close()
            user, system = ((after[i] - before[i]) / requests * 1e6 for i in (0, 1))
            kind = "all" if acks < 0 else str(acks)
            table.add_row(name, kind, f"{requests / seconds:,.0f}", f"{user:.1f}", f"{system:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
