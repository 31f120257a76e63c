"""Many connections: what idle ones take, what busy ones cost, and what a storm of connects does to those who are there.

    .venv/bin/python -m benchmarks.connections [--idle 20000] [--active 10000] [--storm 20000] [--set key=value]

The broker runs in a process of its own; the clients are sockets of this one, from 200 addresses of this host. Idle
connections have asked for the API versions once. Their memory is told in two parts: the broker's (PSS), and what the
system's kernel holds for the socket (growth of its slabs, half of it, since both ends are here). How many there may be
is what the limit on open files leaves the broker (`ulimit -Hn`, docs/limits.md); it is raised where that is allowed,
and what is left out is said.
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

from benchmarks.broker import cpu_seconds, pss_mb, running_broker
from benchmarks.many_connections import connect, connections_allowed, in_turns, slab_kb
from benchmarks.requests import frame
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest

IDLE_SECONDS = 5.0
STORM_IN_FLIGHT = 200


def asks(sock: socket.socket, data: bytes) -> None:
    """One request and its whole answer."""
    sock.sendall(data)
    received = sock.recv(65_536)
    while len(received) < 4 + int.from_bytes(received[:4], "big"):
        received += sock.recv(65_536)


def idle(pid: int, address: str, count: int) -> list[tuple[str, str]]:
    """Memory and CPU of connections on which nothing moves."""
    request = encode_request(1, "idle", ApiVersionsRequest(), 0)
    with connect(address, 0) as first:
        asks(first, request)
    before, slab = pss_mb(pid), slab_kb()
    begun, cpu = time.perf_counter(), sum(cpu_seconds(pid))
    sockets = []
    for number in range(count):
        sockets.append(connect(address, number))
        asks(sockets[-1], request)
    opened, cpu_opened = time.perf_counter() - begun, sum(cpu_seconds(pid)) - cpu
    each, in_kernel = (pss_mb(pid) - before) * 1024 / count, (slab_kb() - slab) / count / 2
    cpu = sum(cpu_seconds(pid))
    time.sleep(IDLE_SECONDS)
    idling = (sum(cpu_seconds(pid)) - cpu) / IDLE_SECONDS
    for sock in sockets:
        sock.close()
    return [
        (f"{count:,} idle connections, memory", f"{each:.2f} KiB each, and {in_kernel:.2f} KiB of the system's kernel"),
        (f"{count:,} idle connections, CPU", f"{idling * 100:.1f} % of a core"),
        (
            "opened and asked once, one after another",
            f"{count / opened:,.0f}/s, {cpu_opened / count * 1e6:.0f} us each",
        ),
    ]


def active(pid: int, address: str, count: int, requests: int) -> list[tuple[str, str]]:
    """Connections that all produce, one record at a time."""
    sockets = [connect(address, number) for number in range(count)]
    in_turns(sockets, frame("many", 1), count)
    cpu = cpu_seconds(pid)
    spent = in_turns(sockets, frame("many", 1), requests)
    user, system = ((after - before) / requests * 1e6 for before, after in zip(cpu, cpu_seconds(pid), strict=True))
    for sock in sockets:
        sock.close()
    p50, p99 = spent.percentile(0.5), spent.percentile(0.99)
    return [
        (f"{count:,} busy connections, rate", f"{requests / spent.seconds:,.0f} requests/s"),
        (f"{count:,} busy connections, time", f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"),
        (f"{count:,} busy connections, CPU", f"{user:.1f} + {system:.1f} us a request (user + system)"),
    ]


def storm(pid: int, address: str, count: int) -> list[tuple[str, str]]:
    """Clients that connect, ask once and go, many at a time; beside them one that stays and asks in a row."""
    request = encode_request(1, "storm", ApiVersionsRequest(), 0)
    waits: list[float] = []
    with connect(address, 0) as steady:
        begun, cpu = time.perf_counter(), sum(cpu_seconds(pid))
        done = 0
        while done < count:
            sockets = [connect(address, done + number) for number in range(STORM_IN_FLIGHT)]
            for sock in sockets:
                sock.sendall(request)
            asked = time.perf_counter()
            asks(steady, request)
            waits.append(time.perf_counter() - asked)
            for sock in sockets:
                sock.recv(65_536)
                sock.close()
            done += len(sockets)
        seconds, cpu = time.perf_counter() - begun, sum(cpu_seconds(pid)) - cpu
    waits.sort()
    return [
        ("a storm of connects", f"{done / seconds:,.0f}/s, {cpu / done * 1e6:.0f} us each"),
        (
            f"who is there already, behind {STORM_IN_FLIGHT} of them",
            f"p50 {waits[len(waits) // 2] * 1000:.1f} ms, most {waits[-1] * 1000:.1f} ms",
        ),
    ]


def main() -> None:
    """Measure and print a table."""
    allowed, limit = connections_allowed()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=20_000)
    parser.add_argument("--active", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=100_000, help="of the busy ones")
    parser.add_argument("--storm", type=int, default=20_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    arguments = parser.parse_args()
    table = Table("what", "result")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "data", arguments.set) as (pid, address, _),
    ):
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic("many", 1, 1)]).values():
            future.result()
        rows = idle(pid, address, min(arguments.idle, allowed))
        rows += active(pid, address, min(arguments.active, allowed), arguments.requests)
        rows += storm(pid, address, arguments.storm)
    wanted = max(arguments.idle, arguments.active)
    if wanted > allowed:
        rows.append((f"connections beyond {allowed:,}", f"left out: {limit:,} open files are the limit here"))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
