"""A stream of many entries: what it takes to have it, to start with it, and to read in it. A broker, or Redis.

python -m benchmarks.redis_large_stream 127.0.0.1:6379 10000000 ottla serve --data /tmp/large --redis 6379
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.redis_client import RawRedis, ReplyError, encoded

KEY = "large"
VALUE = "x" * 100
TOGETHER = 500
LOOKS = 300


def main() -> None:
    """Fill, look, stop, start, kill, start."""
    host, _, port = sys.argv[1].rpartition(":")
    count, command, address = int(sys.argv[2]), sys.argv[3:], (host, int(port))
    server, client = started(command, address)
    fill(address, count)
    tell_memory(server, "filled")
    look(client, count)
    tell_memory(server, "after reading")
    for name, sent in (("a clean stop", signal.SIGTERM), ("kill -9", signal.SIGKILL)):
        server.send_signal(sent)
        server.wait()
        began = time.perf_counter()
        server, client = started(command, address)
        while client.call("XLEN", KEY) != count:
            time.sleep(0.01)
        print(f"start after {name}: {time.perf_counter() - began:.2f} s until all entries are there")
        tell_memory(server, "then")
    look(client, count)
    server.terminate()
    server.wait()


def started(command: list[str], address: tuple[str, int]) -> tuple[subprocess.Popen[bytes], RawRedis]:
    """The server, and a client that it has answered."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while True:
        with suppress(OSError, EOFError):
            client = RawRedis(address)
            if not isinstance(client.call("PING"), ReplyError):  # Redis says LOADING
                return server, client
        time.sleep(0.01)


def fill(address: tuple[str, int], count: int) -> None:
    """Add entries, two pipelines at a time."""
    began, client = time.perf_counter(), RawRedis(address)
    pipeline = encoded(("XADD", KEY, "*", "f", VALUE)) * TOGETHER
    client.socket.sendall(pipeline)
    answered = 0
    for number in range(1, count // TOGETHER + 1):
        if number < count // TOGETHER:
            client.socket.sendall(pipeline)
        while answered < 2 * TOGETHER * number:
            answered += client.socket.recv(1 << 16).count(b"\n")
    print(f"{count / (time.perf_counter() - began):,.0f} a second by pipelines of {TOGETHER}")


def tell_memory(server: subprocess.Popen[bytes], when: str) -> None:
    """Print the memory of the server."""
    print(f"memory {when}: {psutil.Process(server.pid).memory_info().rss / 2**20:,.0f} MiB")


def look(client: RawRedis, count: int) -> None:
    """Print how long reading takes."""
    first, last = (
        int(client.call(*words)[0][0].partition(b"-")[0])
        for words in (("XRANGE", KEY, "-", "+", "COUNT", "1"), ("XREVRANGE", KEY, "+", "-", "COUNT", "1"))
    )
    assert client.call("XLEN", KEY) == count
    chance = random.Random(1)
    took("XLEN", lambda: client.call("XLEN", KEY))
    took(
        "XRANGE COUNT 10 anywhere",
        lambda: client.call("XRANGE", KEY, str(chance.randint(first, last)), "+", "COUNT", "10"),
    )
    took("XREVRANGE COUNT 10 from the end", lambda: client.call("XREVRANGE", KEY, "+", "-", "COUNT", "10"))


def took(name: str, call: Callable[[], object]) -> None:
    """Print the middle and the 99th percentile."""
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    times.sort()
    print(f"{name}: p50 {times[LOOKS // 2]:.2f} ms, p99 {times[LOOKS * 99 // 100]:.2f} ms")


if __name__ == "__main__":
    main()
