"""What security costs: decisions by ACLs, and handshakes of TLS beside clients that are there.

    .venv/bin/python -m benchmarks.security [--handshakes 200] [--seconds 10]

Decisions are asked of one process, with 1,000 ACLs of 100 users, for 10 topics each: a second, of one core. Handshakes
come at so many a second, each on a connection of its own, to a broker in a process of its own; one client asks for the
API versions all the while, first without them. CPU is the broker's.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.broker import READY, cpu_seconds
from benchmarks.connections import asks
from ottla.broker.acl_authorizer import AclAuthorizer
from ottla.model.acl import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.model.principal import Principal
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.runtime.clock import SystemClock
from tests.certificates import Authority

USERS: Final = 100
TOPICS: Final = 10
DECISIONS: Final = 1_000_000


def decisions() -> float:
    """A second, by one thread, of answers that are kept."""
    names = [f"topic-{number}" for number in range(TOPICS)]
    users = [Principal("User", f"user-{number}") for number in range(USERS)]
    rules = AclAuthorizer((), clock=SystemClock())
    rules.apply(
        dict.fromkeys(
            AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, str(user), "*", Operation.WRITE, Permission.ALLOW)
            for user in users
            for name in names
        )
    )
    asked = [(user, name) for user in users for name in names]
    assert all(rules.allows(user, Operation.WRITE, ResourceType.TOPIC, name) for user, name in asked)
    begun = time.perf_counter()
    for _ in range(DECISIONS // len(asked)):
        for user, name in asked:
            rules.allows(user, Operation.WRITE, ResourceType.TOPIC, name)
    return DECISIONS / (time.perf_counter() - begun)


def shake_hands(address: tuple[str, int], context: ssl.SSLContext, rate: int, end: threading.Event) -> int:
    """One full handshake after the other, at a rate; how many there were."""
    done, begun = 0, time.perf_counter()
    while not end.is_set():
        with suppress(OSError), socket.create_connection(address) as plain, context.wrap_socket(plain):
            done += 1
        ahead = begun + done / rate - time.perf_counter()
        if ahead > 0:
            end.wait(ahead)
    return done


def latencies(address: tuple[str, int], context: ssl.SSLContext, seconds: float) -> list[float]:
    """Of one request after the other on one connection, in milliseconds, sorted."""
    request = encode_request(1, "waits", ApiVersionsRequest(), 0)
    found = []
    with socket.create_connection(address) as plain, context.wrap_socket(plain) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            asks(connection, request)
            found.append((time.perf_counter() - begun) * 1_000)
    return sorted(found)


def handshakes(directory: Path, rate: int, seconds: float) -> list[tuple[str, str]]:
    """What a request waits for without them and beside them, and what each costs."""
    authority = Authority()
    key, trusted = authority.identity("broker").write_pem(directory / "key.pem"), authority.write(directory / "ca.pem")
    context = ssl.create_default_context(cafile=str(trusted))
    context.check_hostname = False
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(directory / "data")]
    command += ["--set", "listeners=SSL://127.0.0.1:0", "--set", f"ssl.keystore.location={key}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = READY.search(process.stdout.readline())
        assert ready is not None
        host, _, port = ready[1].rstrip(",").rpartition(":")
        address = (host, int(port))
        quiet_cpu = sum(cpu_seconds(process.pid))
        quiet = latencies(address, context, seconds)
        quiet_cpu = (sum(cpu_seconds(process.pid)) - quiet_cpu) / len(quiet)
        end, counted = threading.Event(), [0]

        def shake() -> None:
            counted[0] = shake_hands(address, context, rate, end)

        thread = threading.Thread(target=shake)
        cpu = sum(cpu_seconds(process.pid))
        thread.start()
        busy = latencies(address, context, seconds)
        end.set()
        thread.join()
        cpu = sum(cpu_seconds(process.pid)) - cpu - quiet_cpu * len(busy)
    finally:
        process.terminate()
        process.wait()
    return [
        ("a request, p50 and p99 ms", " and ".join(f"{quiet[int(len(quiet) * each)]:.2f}" for each in (0.5, 0.99))),
        ("the same beside handshakes", " and ".join(f"{busy[int(len(busy) * each)]:.2f}" for each in (0.5, 0.99))),
        ("handshakes a second", f"{counted[0] / seconds:.0f}"),
        ("CPU ms of the broker each", f"{cpu * 1_000 / max(1, counted[0]):.2f}"),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What security costs.")
    parser.add_argument("--handshakes", type=int, default=200, help="a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    table = Table("what", "figure")
    table.add_row("decisions by ACLs a second", f"{decisions():,.0f}")
    with tempfile.TemporaryDirectory() as directory:
        for row in handshakes(Path(directory), options.handshakes, options.seconds):
            table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
