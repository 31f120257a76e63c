"""A client of many connections, each with one request unanswered at most. One thread, epoll, frames made beforehand."""

from __future__ import annotations

import resource
import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ottla.server.open_files import OpenFileShares

OPEN_FILES = 32_768
"""Enough for a broker with 20,000 connections and its share of other files."""
SPARE_CONNECTIONS = 100


@dataclass(frozen=True)
class Spent:
    """How long it took, and how long each request did."""

    seconds: float
    milliseconds: list[float]
    """Of all requests, sorted."""

    def percentile(self, share: float) -> float:
        """How long `share` of the requests took at most, in milliseconds."""
        return self.milliseconds[min(int(len(self.milliseconds) * share), len(self.milliseconds) - 1)]


def connect(address: str, number: int) -> socket.socket:
    """A connection from one of 200 addresses of this host: one has only so many ports."""
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
    sock.bind((f"127.0.0.{2 + number % 200}", 0))
    sock.connect((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def raise_open_files_limit(wanted: int = 0) -> int:
    """As many as the system lets, or `wanted` if that is more and this process may; how many. A broker that is started
    later has as many.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(wanted, hard), hard):
        with suppress(ValueError, OSError):  # beyond the hard limit goes only who has the right to
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return limit
    return hard


def connections_allowed() -> tuple[int, int]:
    """How many connections a broker takes that is started after this, but for a few of whoever measures, and how many
    open files that comes of. The limit on these is raised as far as it may be, and needed for 20,000.
    """
    limit = raise_open_files_limit(OPEN_FILES)
    return OpenFileShares.of(limit).connections - SPARE_CONNECTIONS, limit


def slab_kb() -> int:
    """What the system's kernel holds of small objects, those of sockets among them, in KiB."""
    text = Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Slab:"))


def in_turns(sockets: list[socket.socket], frame: bytes, requests: int) -> Spent:
    """Every connection sends `frame`, and sends it again when it has the answer, until `requests` are answered.

    Answers are small: each is there with its first byte.
    """
    poller = select.epoll()
    by_number = {sock.fileno(): sock for sock in sockets}
    for number in by_number:
        poller.register(number, select.EPOLLIN)
    sent_at = dict.fromkeys(by_number, 0.0)
    durations: list[float] = []
    now = time.perf_counter
    begun = now()
    unsent = requests
    for number, sock in by_number.items():
        sent_at[number] = now()
        sock.send(frame)
        unsent -= 1
    while len(durations) < requests:
        for number, _ in poller.poll():
            sock = by_number[number]
            if not sock.recv(65_536):
                raise SystemExit("the broker has closed a connection")
            durations.append(now() - sent_at[number])
            if unsent > 0:
                unsent -= 1
                sent_at[number] = now()
                sock.send(frame)
    seconds = now() - begun
    poller.close()
    return Spent(seconds, sorted(duration * 1000 for duration in durations))
