"""What the network layer costs: small requests, large requests, files, idle connections.

    .venv/bin/python benchmarks/network.py [--files] [--json FILE]

The listener runs in this process, on uvloop, with handlers that do nothing; the client is a process of its own on
loopback. CPU is this process's, the best of several rounds. `--files` compares the two ways from a file to a socket,
`--buffers` the sizes of the sockets' buffers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ottla.network import output_queue
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.connection_handler import ConnectionHandler
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.clock import SystemClock
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.tasks import run_main
from ottla.runtime.timer import Timer

ROUNDS = 3
MB = 1_000_000
FILE_BYTES = 64 << 20


@dataclass(frozen=True)
class Row:
    """One measurement."""

    work: str
    result: str
    user: str
    system: str


@dataclass(frozen=True)
class Spent:
    """What a round took."""

    seconds: float
    user: float
    system: float


class Echo:
    """Answers with the request."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        slot.send((struct.pack(">i", len(frame)), bytes(frame)))

    def on_end_of_input(self) -> None:
        pass

    def on_close(self) -> None:
        pass


class Keep(Echo):
    """Keeps the last four requests, as a log does that is being written, and answers with 100 bytes."""

    ANSWER = struct.pack(">i", 96) + bytes(96)

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.held: deque[ReceiveBuffer] = deque()

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        buffer.retain()
        self.held.append(buffer)
        if len(self.held) > 4:
            self.held.popleft().release()
        slot.send((self.ANSWER,))


def sender_of_files(fd: int, slice_bytes: int, slices: int) -> Callable[[Connection], ConnectionHandler]:
    """A handler that answers with slices, each after 60 bytes."""
    header = bytes(60)
    span = FILE_BYTES - slice_bytes

    class Files(Echo):
        position = 0

        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            parts: list[bytes | FileSlice] = [struct.pack(">i", slices * (60 + slice_bytes))]
            for _ in range(slices):
                parts += (header, FileSlice(fd, self.position, slice_bytes, None))
                self.position = (self.position + 7 * slice_bytes) % span
            slot.send(parts)

    return Files


def client(address: tuple[str, int], request: bytes, count: int, response_bytes: int, in_flight: int) -> None:
    """Sends `count` requests, at most `in_flight` unanswered, and reads the responses."""
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    allowed = threading.Semaphore(in_flight)
    per_call = max(1, min(in_flight // 2, 65_536 // len(request)))

    def send() -> None:
        for start in range(0, count, per_call):
            calls = min(per_call, count - start)
            for _ in range(calls):
                allowed.acquire()
            sock.sendall(request * calls)

    threading.Thread(target=send, daemon=True).start()
    buffer = bytearray(1 << 20)
    received = answered = 0
    while answered < count:
        received += sock.recv_into(buffer)
        if (now := received // response_bytes) > answered:
            allowed.release(now - answered)
            answered = now


@contextmanager
def forked(work: Callable[[], None]) -> Iterator[int]:
    """`work` in a process of its own."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    yield pid


config = NetworkConfig()


async def measure(
    handler: Callable[[Connection], ConnectionHandler], request: bytes, count: int, response_bytes: int, in_flight: int
) -> Spent:
    """The best of some rounds by CPU, and the shortest time."""
    clock = SystemClock()
    timer = Timer(clock, asyncio.get_running_loop().call_later)
    listener = Listener(
        "127.0.0.1", 0, WireProtocol("bench", handler, LengthPrefixReader), config=config, clock=clock, timer=timer
    )
    await listener.start()
    rounds = []
    for _ in range(ROUNDS):
        done = asyncio.Event()
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        with forked(lambda: client(tuple(listener.address), request, count, response_bytes, in_flight)) as pid:
            child = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(child, done.set)
            await done.wait()
            asyncio.get_running_loop().remove_reader(child)
            os.close(child)
            os.waitpid(pid, 0)  # noqa: ASYNC222 (it has ended)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        rounds.append(Spent(seconds, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime))
    await listener.close()
    best = min(rounds, key=lambda spent: spent.user + spent.system)
    return Spent(min(spent.seconds for spent in rounds), best.user, best.system)


async def small(work: str, count: int, in_flight: int) -> Row:
    """Requests of 100 bytes, answered with themselves."""
    request = struct.pack(">i", 100) + bytes(100)
    spent = await measure(Echo, request, count, len(request), in_flight)
    return Row(
        work,
        f"{count / spent.seconds:,.0f} requests/s",
        f"{spent.user / count * 1e6:.2f} us each",
        f"{spent.system / count * 1e6:.2f} us each",
    )


async def large(work: str, size: int, count: int) -> Row:
    """Large requests that are kept for a while."""
    request = struct.pack(">i", size) + bytes(size)
    return per_gb(work, size * count, await measure(Keep, request, count, 100, 5))


def per_gb(work: str, total_bytes: int, spent: Spent) -> Row:
    gb = total_bytes / 1e9
    return Row(
        work, f"{gb * 1000 / spent.seconds:,.0f} MB/s", f"{spent.user / gb:.2f} s/GB", f"{spent.system / gb:.2f} s/GB"
    )


async def files(fd: int, slice_bytes: int, slices: int) -> Spent:
    """A GB, or less where that takes long, of answers made of slices."""
    total = min(1e9, slice_bytes * 100_000)
    count = int(total / slice_bytes / slices)
    response_bytes = 4 + slices * (60 + slice_bytes)
    spent = await measure(sender_of_files(fd, slice_bytes, slices), struct.pack(">i", 4) * 2, count, response_bytes, 2)
    gb = count * slices * slice_bytes / 1e9
    return Spent(spent.seconds / gb, spent.user / gb, spent.system / gb)


@contextmanager
def warm_file() -> Iterator[int]:
    """A file in the page cache."""
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        yield file.fileno()


async def compare_ways() -> list[Row]:
    """`sendfile` against `preadv` and `sendmsg`, through the same queue."""
    rows = []
    usual = output_queue.GATHER_MAX_BYTES
    with warm_file() as fd:
        for slice_bytes, slices in (
            (500, 50),
            (2048, 50),
            (4096, 50),
            (16384, 20),
            (32768, 10),
            (65536, 8),
            (1 << 20, 1),
        ):
            for way, gather_max in (("sendfile", 0), ("preadv, sendmsg", 1 << 30)):
                output_queue.GATHER_MAX_BYTES = gather_max
                spent = await files(fd, slice_bytes, slices)
                rows.append(
                    Row(
                        f"{slices} slices of {slice_bytes:,} B: {way}",
                        f"{spent.user + spent.system:.2f} s/GB",
                        f"{spent.user:.2f} s/GB",
                        f"{spent.system:.2f} s/GB",
                    )
                )
    output_queue.GATHER_MAX_BYTES = usual
    return rows


async def compare_buffers() -> list[Row]:
    """The operating system's choice against Apache Kafka's 100 KiB."""
    global config
    rows = []
    for size, name in ((-1, "left to the system"), (102_400, "102,400 bytes"), (1_048_576, "1 MiB")):
        config = NetworkConfig(socket_send_buffer_bytes=size, socket_receive_buffer_bytes=size)
        rows.append(await large(f"1 MB requests, SO_RCVBUF {name}", MB, 1_000))
        with warm_file() as fd:
            spent = await files(fd, 1 << 20, 1)
        rows.append(per_gb(f"1 MiB slices of files, SO_SNDBUF {name}", 10**9, spent))
    return rows


async def idle(count: int) -> Row:
    """Memory of connections that have sent something once."""

    def connect_and_wait(address: tuple[str, int], ready: int, stop: int) -> None:
        sockets = [socket.create_connection(address) for _ in range(count)]
        for sock in sockets:
            sock.sendall(struct.pack(">i", 1) + b"x")
            sock.recv(5)
        os.write(ready, b"1")
        os.read(stop, 1)

    clock = SystemClock()
    timer = Timer(clock, asyncio.get_running_loop().call_later)
    listener = Listener(
        "127.0.0.1", 0, WireProtocol("bench", Echo, LengthPrefixReader), config=config, clock=clock, timer=timer
    )
    await listener.start()
    (ready, told_ready), (told_stop, stop) = os.pipe(), os.pipe()
    before = resident_bytes()
    with forked(lambda: connect_and_wait(tuple(listener.address), told_ready, told_stop)) as pid:
        done = asyncio.Event()
        asyncio.get_running_loop().add_reader(ready, done.set)
        await done.wait()
        asyncio.get_running_loop().remove_reader(ready)
        each = (resident_bytes() - before) / count
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        await timer.sleep(1_000)
        spent = resource.getrusage(resource.RUSAGE_SELF)
        os.write(stop, b"1")
        os.waitpid(pid, 0)  # noqa: ASYNC222 (nothing else runs here)
    await listener.close()
    return Row(
        f"{count:,} idle connections",
        f"{each / 1024:.1f} KiB each",
        f"{(spent.ru_utime - cpu.ru_utime) * 100:.1f} % of a core",
        f"{(spent.ru_stime - cpu.ru_stime) * 100:.1f} % of a core",
    )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def usual_rows() -> list[Row]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    rows = [
        await idle(min(5_000, limit[1] - 200)),
        await small("100 B, pipelined", 400_000, 1_000),
        await small("100 B, 5 in flight", 50_000, 5),
        await small("100 B, one at a time", 20_000, 1),
        await large("10 KB requests, 5 in flight", 10_000, 100_000),
        await large("1 MB requests, 5 in flight", MB, 2_000),
        await large("10 MB requests, 5 in flight", 10 * MB, 100),
    ]
    with warm_file() as fd:
        for slice_bytes, slices in ((4096, 50), (65536, 8), (1 << 20, 1)):
            spent = await files(fd, slice_bytes, slices)
            rows.append(per_gb(f"responses of {slices} x {slice_bytes:,} B from a file", 10**9, spent))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="compare the ways from a file to a socket")
    parser.add_argument("--buffers", action="store_true", help="compare sizes of the sockets' buffers")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    options = parser.parse_args()
    rows = run_main(compare_ways() if options.files else compare_buffers() if options.buffers else usual_rows())
    table = Table("work", "result", "user CPU", "system CPU", title="network, one core for the listener")
    for row in rows:
        table.add_row(row.work, row.result, row.user, row.system)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
