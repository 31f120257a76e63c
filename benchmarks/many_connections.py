"""A client of many connections, each with one request unanswered at most. One thread, epoll, frames made beforehand."""

from __future__ import annotations

import resource
import select
import socket
import time
from dataclasses import dataclass


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


def raise_open_files_limit() -> int:
    """As many as the system lets; how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


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
