"""The server's CPU for stream commands of Redis clients: a broker, or Redis beside it.

ottla serve --redis 6379 &
python -m benchmarks.redis_streams 127.0.0.1:6379 $! 100000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import psutil

from tests.redis_client import RawRedis

KEY = "benchmark"
VALUE = "x" * 100
TOGETHER = 50
JOBS = 10


def measured(process: psutil.Process, name: str, count: int, run: Callable[[], None]) -> None:
    """Print the rate and the CPU of the server for each."""
    before, started = process.cpu_times(), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - started, process.cpu_times()
    used = after.user + after.system - before.user - before.system
    print(f"{name:<36} {count / seconds:>10,.0f} a second {used / count * 1e6:>8.1f} us of the server's CPU")


def main() -> None:
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

    def add_singly() -> None:
        for _ in range(count // 20):
            client.call("XADD", KEY, "*", "f", VALUE)

    measured(process, f"XADD, {TOGETHER} in a pipeline", count, add)
    measured(process, f"XREADGROUP of {JOBS} and XACK, an entry", count // 10, work)
    measured(process, "XADD, one at a time", count // 20, add_singly)
    measured(process, "XRANGE of all, an entry", count, lambda: client.call("XRANGE", KEY, "-", "+"))
    print(f"memory {process.memory_info().rss // 2**20} MiB")


if __name__ == "__main__":
    main()
