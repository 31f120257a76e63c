"""Messages a second of an NSQ server and its CPU for each: published alone, in batches, and read.

    python -m benchmarks.nsq HOST:PORT PID [MESSAGES]          PID is the server's, Ottla's or nsqd's

Messages of 100 bytes. PUBs go out 200 at a time, MPUBs hold 200; FINs go out together for what arrives together. Then
100 connections publish one message after the other each, 1,000 messages a second are published and read one by one, and
a million wait: the server's memory.
"""

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.system.nsq_client import NsqClient

BODY = b"x" * 100
TOGETHER = 200
CONNECTIONS = 100
RATE = 1_000
RATE_SECONDS = 5
WAITING = 1_000_000


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


def publish_over_connections(address: tuple[str, int], topic: str, count: int) -> list[float]:
    """PUBs of one message over many connections, each when the one before is answered; seconds of each, sorted."""
    one = f"PUB {topic}\n".encode() + struct.pack(">i", len(BODY)) + BODY
    clients = [NsqClient(address) for _ in range(CONNECTIONS)]
    took: list[float] = []

    def publish(client: NsqClient) -> None:
        for _ in range(count // CONNECTIONS):
            began = time.perf_counter()
            client._socket.sendall(one)
            assert client.response() == b"OK"
            took.append(time.perf_counter() - began)
        client.close()

    threads = [threading.Thread(target=publish, args=(client,)) for client in clients]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sorted(took)


def deliver(address: tuple[str, int], topic: str) -> list[float]:
    """Messages at a rate, read and finished one by one; seconds from PUB to the reader, sorted."""
    reader, took = NsqClient(address).subscribe(topic, "c", 200), list[float]()

    def read_all() -> None:
        for _ in range(RATE * RATE_SECONDS):
            message = reader.message()
            took.append(time.time() - struct.unpack_from(">d", message.body)[0])
            reader.finish(message)

    thread = threading.Thread(target=read_all)
    thread.start()
    publisher = socket.create_connection(address)
    publisher.sendall(b"  V2")
    answers = threading.Thread(target=lambda: [None for _ in iter(lambda: publisher.recv(65536), b"")], daemon=True)
    answers.start()
    began, line = time.monotonic(), f"PUB {topic}\n".encode() + struct.pack(">i", len(BODY))
    for number in range(RATE * RATE_SECONDS):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        publisher.sendall(line + struct.pack(">d", time.time()) + BODY[8:])
    thread.join()
    publisher.shutdown(socket.SHUT_RDWR)
    return sorted(took)


def memory_mib(pid: int) -> int:
    """The memory of a process, its share of what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith("Pss:")) // 1024


def report(name: str, took: list[float], cpu: float) -> None:
    """Print how long each of many took."""
    middle, late = took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000
    print(f"{name:12} {middle:7.1f} ms p50 {late:7.1f} ms p99 {cpu / len(took) * 1e6:8.1f} us of CPU each", flush=True)


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
    where, cpu = (host, int(port)), cpu_seconds(pid)
    took = publish_over_connections(where, f"{run}-0", count)
    report("PUB of 100", took, cpu_seconds(pid) - cpu)
    cpu = cpu_seconds(pid)
    took = deliver(where, f"{run}-rate")
    report("at a rate", took, cpu_seconds(pid) - cpu)
    waiting = NsqClient(where)
    waiting.subscribe(f"{run}-waiting", "c", 0)
    before = memory_mib(pid)
    publish_together(NsqClient(where), f"{run}-waiting", WAITING)
    print(f"a million    {before} MiB before, {memory_mib(pid)} MiB with {WAITING:,} messages that wait", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20_000)
