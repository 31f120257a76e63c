"""The server's CPU for stream commands of Redis clients: a broker, or Redis beside it.

ottla serve --redis 6379 &
python -m benchmarks.redis_streams 127.0.0.1:6379 $! 100000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from select import select

import psutil

from tests.redis_client import RawRedis, encoded

KEY = "benchmark"
VALUE = "x" * 100
TOGETHER = 50
JOBS = 10
CLIENTS = 8
RATE = 1_000
LATENCY_ENTRIES = 10_000


def measured(process: psutil.Process, name: str, count: int, run: Callable[[], None]) -> None:
    """Print the rate and the CPU of the server for each."""
    before, started = process.cpu_times(), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - started, process.cpu_times()
    used = after.user + after.system - before.user - before.system
    print(f"{name:<52} {count / seconds:>10,.0f} a second {used / count * 1e6:>8.1f} us of the server's CPU")


def measure_latency(client: RawRedis) -> None:
    """Print how long entries take that come at a steady rate, whether those before are answered or not."""
    command = encoded(("XADD", KEY, "*", "f", VALUE))
    times: list[float] = []
    began, sent, lines = time.perf_counter(), 0, 0
    while len(times) < LATENCY_ENTRIES:
        now = time.perf_counter()
        while sent < LATENCY_ENTRIES and began + sent / RATE <= now:
            client.socket.sendall(command)
            sent += 1
        if select([client.socket], [], [], max(0.0, began + sent / RATE - now))[0]:
            lines += client.socket.recv(1 << 16).count(b"\n")
            now = time.perf_counter()
            times += [(now - began - number / RATE) * 1e3 for number in range(len(times), lines // 2)]
    times.sort()
    shown = ", ".join(f"p{share:g} {times[int(len(times) * share / 100)]:.2f} ms" for share in (50, 90, 99))
    print(f"XADD, {RATE:,} a second from one client: {shown}")


def main() -> None:  # noqa: C901
    """Measure."""
    host, _, port = sys.argv[1].rpartition(":")
    process, count = psutil.Process(int(sys.argv[2])), int(sys.argv[3])
    client = RawRedis((host, int(port)))
    client.call("DEL", KEY)
    client.call("XGROUP", "CREATE", KEY, "g", "0", "MKSTREAM")
    added = [("XADD", KEY, "*", "f", VALUE)] * TOGETHER

    def add() -> None:
        for _ in range(count // TOGETHER):
            client.pipeline(list(added))

    def work() -> None:
        for _ in range(count // 10 // JOBS):
            reply = client.call("XREADGROUP", "GROUP", "g", "c", "COUNT", str(JOBS), "STREAMS", KEY, ">")
            client.call("XACK", KEY, "g", *(entry[0] for entry in reply[0][1]))

    def work_by_many() -> None:
        clients = [RawRedis((host, int(port))) for _ in range(CLIENTS)]
        for _ in range(count // 10 // JOBS // CLIENTS):
            for number, each in enumerate(clients):
                each.send("XREADGROUP", "GROUP", "g", f"c{number}", "COUNT", str(JOBS), "STREAMS", KEY, ">")
            for each in clients:
                each.send("XACK", KEY, "g", *(entry[0] for entry in each.reply()[0][1]))
            for each in clients:
                each.reply()

    def add_singly() -> None:
        for _ in range(count // 20):
            client.call("XADD", KEY, "*", "f", VALUE)

    def add_from_many() -> None:
        clients = [RawRedis((host, int(port))) for _ in range(CLIENTS)]
        pipeline = b"".join(map(encoded, added))
        for _ in range(count // TOGETHER // CLIENTS):
            for each in clients:
                each.socket.sendall(pipeline)
            for each in clients:
                lines = 0
                while lines < 2 * TOGETHER:
                    lines += each.socket.recv(1 << 16).count(b"\n")

    measured(process, f"XADD, {TOGETHER} in a pipeline", count, add)
    measured(process, f"XADD, {TOGETHER} in a pipeline of {CLIENTS} clients", count, add_from_many)
    measured(process, f"XREADGROUP of {JOBS} and XACK, an entry", count // 10, work)
    measured(process, f"XREADGROUP of {JOBS} and XACK of {CLIENTS} clients, an entry", count // 10, work_by_many)
    measured(process, "XADD, one at a time", count // 20, add_singly)
    measure_latency(client)
    held = client.call("XLEN", KEY)
    measured(process, f"XRANGE of all {held:,}, an entry", held, lambda: client.call("XRANGE", KEY, "-", "+"))
    print(f"memory {process.memory_info().rss // 2**20} MiB")


if __name__ == "__main__":
    main()
