"""Messages a second of an NSQ server and its CPU for each: published alone, in batches, and read.

    python -m benchmarks.nsq HOST:PORT PID [MESSAGES]          PID is the server's, Ottla's or nsqd's

Messages of 100 bytes. PUBs go out 200 at a time, MPUBs hold 200; FINs go out together for what arrives together.
"""

import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.system.nsq_client import NsqClient

BODY = b"x" * 100
TOGETHER = 200


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def publish_alone(client: NsqClient, topic: str, count: int) -> None:
    """PUBs, many in one piece."""
    one = f"PUB {topic}\n".encode() + struct.pack(">i", len(BODY)) + BODY
    for _ in range(count // TOGETHER):
        client._socket.sendall(one * TOGETHER)
        for _ in range(TOGETHER):
            assert client.response() == b"OK"


def publish_together(client: NsqClient, topic: str, count: int) -> None:
    """MPUBs."""
    for _ in range(count // TOGETHER):
        client.publish(topic, *[BODY] * TOGETHER)


def read(client: NsqClient, topic: str, count: int, ready: int) -> None:
    """Read and finish."""
    client.subscribe(topic, f"c{ready}", ready)
    done: list[bytes] = []
    for number in range(1, count + 1):
        done.append(b"FIN " + client.message().message_id + b"\n")
        if len(client._received) < 4 + len(BODY) or number == count:
            client._socket.sendall(b"".join(done))
            done.clear()
    client.send(b"CLS")
    assert client.response() == b"CLOSE_WAIT"


def main(address: str, pid: int, count: int) -> None:
    """Measure and print."""
    host, port = address.rsplit(":", 1)

    def measure(name: str, work: Callable[[NsqClient, str, int], None], topic: str, messages: int) -> None:
        client = NsqClient((host, int(port)))
        began, cpu = time.monotonic(), cpu_seconds(pid)
        work(client, topic, messages)
        seconds, cpu = time.monotonic() - began, cpu_seconds(pid) - cpu
        print(
            f"{name:12} {messages / seconds:10,.0f} messages/s {cpu / messages * 1e6:8.1f} us of CPU each", flush=True
        )

    run = f"bench-{time.time_ns()}"
    NsqClient((host, int(port))).publish(f"{run}-first", BODY)
    measure("PUB", publish_alone, f"{run}-0", count)
    measure("MPUB of 200", publish_together, f"{run}-2500", count)
    measure("RDY 2500", lambda client, topic, most: read(client, topic, most, 2500), f"{run}-2500", count)
    measure("MPUB of 200", publish_together, f"{run}-1", count // 5)
    measure("RDY 1", lambda client, topic, most: read(client, topic, most, 1), f"{run}-1", count // 5)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20_000)
