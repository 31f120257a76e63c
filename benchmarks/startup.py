"""From the start of `ottla serve` to its first acknowledged record, and what the start costs.

    .venv/bin/python -m benchmarks.startup [--rounds 10] [--gigabytes 1 10 100] [--json FILE]

A client that is running already connects as soon as the port opens, and sends one record with acks=all. Seconds of CPU
are the broker's, all its threads, up to the acknowledgement. The rows of a given size of log are measured over segments
of 1 GB whose batches are real and whose rest is a hole, so that they fit any disk; a start that read them would show.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ottla.native import build_batch
from ottla.protocol.api_keys import APIS, ApiKey
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.storage.producer_state_manager import ProducerStateManager

TOPIC = "first"
SEGMENT_BYTES = 1_000_000_000
METADATA_VERSION, PRODUCE_VERSION = 9, 9
TRIES_EVERY_S = 0.001


@dataclass(frozen=True)
class Row:
    """One measurement: medians over the rounds."""

    work: str
    first_ack_s: float
    cpu_s: float
    memory_mb: float


METADATA = encode_request(
    1,
    "startup",
    MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=True),
    METADATA_VERSION,
)
PRODUCE = encode_request(
    2,
    "startup",
    ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(
                name=TOPIC,
                partition_data=(
                    PartitionProduceData(index=0, records=build_batch([(1_700_000_000_000, None, b"v" * 100, [])])),
                ),
            ),
        ),
    ),
    PRODUCE_VERSION,
)


def answer(connection: socket.socket, key: ApiKey, version: int) -> Any:
    """The body of the next response."""
    stream = b""
    while len(stream) < 4 or len(stream) < 4 + struct.unpack_from(">i", stream)[0]:
        received = connection.recv(65536)
        if not received:
            raise SystemExit("the broker closed the connection")
        stream += received
    body = 8 + (APIS[key].response_header_version(version) == 1)
    return APIS[key].response_class.decode(version, memoryview(stream), body)


def first_acknowledgement(address: tuple[str, int], process: subprocess.Popen[bytes]) -> None:
    """Connect as soon as that is possible, and return when one record is acknowledged."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(address) as connection:
            while True:
                connection.sendall(PRODUCE)
                response: ProduceResponse = answer(connection, ApiKey.PRODUCE, PRODUCE_VERSION)
                if response.responses[0].partition_responses[0].error_code == 0:
                    return
                connection.sendall(METADATA)
                metadata: MetadataResponse = answer(connection, ApiKey.METADATA, METADATA_VERSION)
                assert metadata.topics is not None
        time.sleep(TRIES_EVERY_S)
    raise SystemExit("the broker did not start")


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far, to the microsecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def pss_mb(pid: int) -> float:
    """Proportional set size, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def start_once(data: Path, ending: signal.Signals = signal.SIGTERM) -> tuple[float, float, float]:
    """Seconds to the first acknowledgement, of CPU until then, and memory in MB; then the broker ends."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("ottla")), "serve", "--data", str(data), "--kafka", str(port)]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            first_acknowledgement(("127.0.0.1", port), process)
            acknowledged = time.perf_counter() - begun
            used = cpu_seconds(process.pid)
            memory = pss_mb(process.pid)
        finally:
            process.send_signal(ending)
    return acknowledged, used, memory


def median_row(work: str, results: list[tuple[float, float, float]]) -> Row:
    """One row of several rounds."""
    return Row(work, *(round(statistics.median(column), 4) for column in zip(*results, strict=True)))


def lay_segments(directory: Path, gigabytes: int) -> None:
    """Grow a partition's directory by closed segments in front of nothing: a real batch, a hole, and full indexes.

    The log of the directory must be closed; its newest segment is replaced.
    """
    for path in directory.glob("[0-9]*.*"):
        path.unlink()
    batch = build_batch([(1_700_000_000_000, None, b"v" * 100, [])])
    entries = [(offset, offset * 4096) for offset in range(1, SEGMENT_BYTES // 4096)]
    index = b"".join(struct.pack(">ii", *entry) for entry in entries)
    time_index = b"".join(struct.pack(">qi", 1_700_000_000_000 + offset, offset) for offset, _ in entries)
    per_segment = len(entries) + 1
    for number in range(gigabytes):
        base = number * per_segment
        stem = directory / f"{base:020d}"
        with stem.with_suffix(".log").open("wb") as log:
            log.write(struct.pack(">q", base) + batch[8:])
            if number + 1 < gigabytes:
                log.truncate(SEGMENT_BYTES)
        is_closed = number + 1 < gigabytes
        stem.with_suffix(".index").write_bytes(index if is_closed else b"")
        stem.with_suffix(".timeindex").write_bytes(time_index if is_closed else b"")


def lay_log(data: Path, gigabytes: int) -> None:
    """A data directory whose topic holds so much, as a broker left it that was shut down."""
    start_once(data)
    lay_segments(data / f"{TOPIC}-0", gigabytes)
    end = (gigabytes - 1) * (SEGMENT_BYTES // 4096) + 1
    (data / f"{TOPIC}-0" / f"{end:020d}.snapshot").write_bytes(ProducerStateManager([]).snapshot())
    (data / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 {end}\n")


def measure(rounds: int, sizes: list[int]) -> Iterator[Row]:
    """Every row."""
    with tempfile.TemporaryDirectory() as directory:
        fresh = [start_once(Path(directory) / f"fresh-{number}") for number in range(rounds)]
        yield median_row("first start, the topic is created", fresh)
        data = Path(directory) / "data"
        start_once(data)
        yield median_row("start after a clean stop", [start_once(data) for _ in range(rounds)])
        start_once(data, signal.SIGKILL)
        yield median_row("start after kill -9", [start_once(data, signal.SIGKILL) for _ in range(rounds)])
        for gigabytes in sizes:
            large = Path(directory) / f"{gigabytes}-gb"
            lay_log(large, gigabytes)
            yield median_row(f"{gigabytes} GB of log, clean", [start_once(large) for _ in range(rounds)])
            start_once(large, signal.SIGKILL)
            killed = [start_once(large, signal.SIGKILL) for _ in range(rounds)]
            yield median_row(f"{gigabytes} GB of log, after kill -9", killed)


def main() -> None:
    """Measure, print a table, and write the rows to a file when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=int, nargs="*", default=[1, 10, 100])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed broker has its bytecode beside it
    rows = []
    print(f"{'':40} {'first ack s':>12} {'CPU s':>8} {'MB':>7}")
    for row in measure(arguments.rounds, arguments.gigabytes):
        rows.append(row)
        print(f"{row.work:40} {row.first_ack_s:12.3f} {row.cpu_s:8.3f} {row.memory_mb:7.1f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
