"""What receiving large requests costs the system: page faults and system time of a broker, for each GB produced.

    .venv/bin/python -m benchmarks.receive_memory [--gigabytes 2] [--partitions 12] [--connections 6] [--rounds 3]
    .venv/bin/python -m benchmarks.receive_memory --against CHECKOUT      by turns with the broker of another checkout

Each connection sends requests of about 1 MB with records of 10 KB, to all partitions in turn, `--ahead` of them before
their answers. Page faults do not depend on what else the machine does: they count the pages that were mapped anew. What
such a page costs does: most where the page cache fills memory. The last column is the memory that the broker has of its
own half a minute later.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TICKS = os.sysconf("SC_CLK_TCK")
READY = re.compile(r"kafka \S+?:(\d+)")
RECORDS, RECORD_BYTES = 100, 10_000
QUIET_S = 30
HERE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Used:
    """What a process has used so far."""

    faults: int
    user_s: float
    system_s: float

    @classmethod
    def by(cls, pid: int) -> Used:
        """From /proc/PID/stat (proc(5), fields 10, 14 and 15)."""
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return cls(int(fields[7]), int(fields[11]) / TICKS, int(fields[12]) / TICKS)


@dataclass(frozen=True)
class Row:
    """One round, for each GB; and what the broker keeps."""

    faults: float
    user_s: float
    system_s: float
    mb_per_second: float
    own_mb: float


@contextmanager
def broker(checkout: Path, directory: Path) -> Iterator[tuple[int, int]]:
    """The broker of a checkout, run by the interpreter of this one; its process and port."""
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(directory), "--kafka", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        ready = READY.search(process.stdout.readline())
        assert ready is not None, "the broker did not start"
        yield process.pid, int(ready[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def exactly(sock: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = bytearray()
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)


def answer(sock: socket.socket) -> bytes:
    """The next answer without its length."""
    (size,) = struct.unpack(">i", exactly(sock, 4))
    return exactly(sock, size)


def produce(port: int, frames: list[bytes], count: int, ahead: int) -> None:
    """Send `count` requests over one connection, and wait for all answers."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for number in range(count):
            if number >= ahead:
                answer(sock)
            sock.sendall(frames[number % len(frames)])
        for _ in range(min(ahead, count)):
            answer(sock)


def measure(checkout: Path, options: argparse.Namespace) -> Row:
    """One round: a quarter of the load to warm up, then the load."""
    batch = bytes(build_batch([(0, None, os.urandom(RECORD_BYTES), ())] * RECORDS))
    frames = [
        encode_request(
            1,
            "bench",
            ProduceRequest(
                acks=-1,
                timeout_ms=60_000,
                topic_data=(
                    TopicProduceData(name="t", partition_data=(PartitionProduceData(index=index, records=batch),)),
                ),
            ),
            9,
        )
        for index in range(options.partitions)
    ]
    each = int(options.gigabytes * 1e9 / len(batch) / options.connections)
    with (
        tempfile.TemporaryDirectory(dir=options.directory) as directory,
        broker(checkout, Path(directory) / "data") as (pid, port),
    ):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            topic = CreatableTopic(name="t", num_partitions=options.partitions, replication_factor=1)
            sock.sendall(encode_request(1, "bench", CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7))
            answer(sock)

        def load(count: int) -> float:
            begun = time.monotonic()
            threads = [
                threading.Thread(target=produce, args=(port, frames[at:] + frames[:at], count, options.ahead))
                for at in range(options.connections)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return time.monotonic() - begun

        load(each // 4)
        before = Used.by(pid)
        seconds = load(each)
        after = Used.by(pid)
        gigabytes = each * options.connections * len(batch) / 1e9
        time.sleep(options.quiet)
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        own = re.search(r"^Pss_Anon:\s+(\d+)", rollup, re.MULTILINE)
        assert own is not None
        return Row(
            (after.faults - before.faults) / gigabytes,
            (after.user_s - before.user_s) / gigabytes,
            (after.system_s - before.system_s) / gigabytes,
            gigabytes * 1e3 / seconds,
            int(own[1]) / 1024,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--ahead", type=int, default=5, help="requests of a connection that are not answered yet")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quiet", type=float, default=QUIET_S, help="seconds before the memory is looked at")
    parser.add_argument("--against", type=Path, help="another checkout, with its kernel built")
    parser.add_argument("--directory", type=Path, help="where the data goes")
    options = parser.parse_args()
    checkouts = [HERE] if options.against is None else [options.against.resolve(), HERE]
    rows: dict[Path, list[Row]] = {checkout: [] for checkout in checkouts}
    for _ in range(options.rounds):
        for checkout in checkouts:
            rows[checkout].append(measure(checkout, options))
    table = Table(title=f"{options.connections} connections, {options.partitions} partitions, medians in the last row")
    for title in ("broker", "faults/GB", "user s/GB", "system s/GB", "MB/s", "own MB later"):
        table.add_column(title, justify="left" if title == "broker" else "right")
    for checkout, found in rows.items():
        middle = Row(*(median(getattr(row, name) for row in found) for name in Row.__dataclass_fields__))
        for row in (*found, middle):
            table.add_row(
                "here" if checkout == HERE else "against",
                f"{row.faults:,.0f}",
                f"{row.user_s:.2f}",
                f"{row.system_s:.2f}",
                f"{row.mb_per_second:,.0f}",
                f"{row.own_mb:.1f}",
            )
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
