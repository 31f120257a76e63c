"""How long an acknowledgement takes that waits for the disk, at a fixed rate, and where the time goes.

    .venv/bin/python -m benchmarks.durable_tails [--rate 20000] [--seconds 8] [--rounds 3] [--set key=value]...
    .venv/bin/python -m benchmarks.durable_tails --beside 60        somebody else writes 60 MB/s and syncs nothing

The load is that of `beside_kafka`, the broker one of its own with `--set`. With `--against key=value` each round is one
run with and one run without these settings, in turns, since the machine is not the same for long. Times of the log I/O
thread are upper bounds of its histograms' buckets.

What the disk, the page cache and the scheduler did meanwhile is looked at ten times a second, and told apart for those
tenths in which a sync took 16 ms or more (*slow*) and the others: where the disk differs, something else had the disk;
where the threads waited for a core, something else had the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.beside_kafka.load_generator import LoadGenerator, compiled, librdkafka
from ottla.storage.log_io_trace import Histogram, histograms

READY = re.compile(r"kafka (\S+?),? ")
TIMES = ("queue_us", "write_us", "sync_us", "fetch_us")
SIZES = ("appends", "bytes", "files")
RECORD_BYTES = 100
SKIP_SECONDS = 1.0
TENTH_S = 0.1
SLOW_US = 16_384
SECTOR_BYTES = 512
CHUNK_BYTES = 1 << 20
BESIDE_FILE_BYTES = 2 << 30


@contextmanager
def traced_broker(data: Path, settings: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, which answers SIGUSR1."""
    command = [sys.executable, "-m", "benchmarks.traced_broker", str(data), *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def trace_of(process: subprocess.Popen[str]) -> dict[str, Histogram]:
    """What it has counted so far."""
    assert process.stdout is not None
    process.send_signal(signal.SIGUSR1)
    return histograms((name, tuple(reading)) for name, reading in json.loads(process.stdout.readline()))


class Tenths:
    """Looks at the disk, the page cache and the thread, again and again, until it is left."""

    def __init__(self, process: subprocess.Popen[str], directory: str) -> None:
        self._process, self._device = process, device_of(directory)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._found: list[tuple[dict[str, Histogram], dict[str, float]]] = []
        self._threads = threads_of(process.pid)

    def __enter__(self) -> Tenths:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(TENTH_S):
            self._found.append((trace_of(self._process), self._system()))

    def _system(self) -> dict[str, float]:
        memory = {
            line.split(":")[0]: int(line.split()[1]) / 1024 for line in Path("/proc/meminfo").read_text().splitlines()
        }
        fields = next(line for line in Path("/proc/diskstats").read_text().splitlines() if self._device in line.split())
        numbers = [int(each) for each in fields.split()[3:]]
        return {
            "dirty MB": memory["Dirty"],
            "in write-back MB": memory["Writeback"],
            "disk MB/s written": numbers[6] * SECTOR_BYTES / 1e6 / TENTH_S,
            "disk writes/s": numbers[4] / TENTH_S,
            "disk ms a write": numbers[7],
            "flushes/s": numbers[15] / TENTH_S if len(numbers) > 15 else 0.0,
            "disk ms a flush": numbers[16] if len(numbers) > 16 else 0.0,
        } | {f"{name} waited for a core, ms": waited_ms(path) for name, path in self._threads.items()}

    def figures(self) -> dict[str, float]:
        """Means over the tenths with a slow sync, and over the others."""
        kinds: dict[str, list[dict[str, float]]] = {"slow": [], "others": []}
        for (trace, before), (later, after) in zip(self._found, self._found[1:], strict=False):
            part = later["sync_us"].since(trace["sync_us"])
            slow = sum(part.counts[index] for index, bound in enumerate((0, *part.bounds)) if bound >= SLOW_US)
            change = {name: after[name] - before[name] for name in after}
            change |= {name: after[name] for name in ("dirty MB", "in write-back MB")}
            for time_of, count_of in (("disk ms a write", "disk writes/s"), ("disk ms a flush", "flushes/s")):
                change[time_of] /= max(1.0, change[count_of] * TENTH_S)
            kinds["slow" if slow else "others"].append(change)
        found = {"slow tenths of a second": float(len(kinds["slow"])), "other tenths": float(len(kinds["others"]))}
        for kind, tenths in kinds.items():
            for name in tenths[0] if tenths else ():
                found[f"{kind}: {name}"] = mean(each[name] for each in tenths)
        return found


def threads_of(pid: int) -> dict[str, Path]:
    """The event loop and the log I/O thread of a broker, in /proc."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    writers = [path for path in threads if (path / "comm").read_text().strip() == "log-io"]
    return {"the loop": Path(f"/proc/{pid}/task/{pid}"), "the log I/O thread": writers[0]}


def waited_ms(thread: Path) -> float:
    """How long a thread was ready to run, and another had the core (proc(5), schedstat)."""
    return int((thread / "schedstat").read_text().split()[1]) / 1e6


def device_of(directory: str) -> str:
    """The name of the disk that a directory is on, as /proc/diskstats has it."""
    number = Path(directory).stat().st_dev
    return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name


@contextmanager
def writer_beside(directory: Path, megabytes: float) -> Iterator[None]:
    """Somebody who writes so much a second to a file of the same disk, and syncs nothing."""
    ended = threading.Event()

    def write() -> None:
        chunk, written, begun = os.urandom(CHUNK_BYTES), 0, time.perf_counter()
        with (directory / "beside").open("wb", buffering=0) as file:
            while not ended.wait(max(0.0, written / (megabytes * 1e6) - (time.perf_counter() - begun))):
                file.seek(written % BESIDE_FILE_BYTES)
                written += file.write(chunk)

    thread = threading.Thread(target=write)
    if megabytes:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if megabytes:
            thread.join()


def run(arguments: argparse.Namespace, settings: list[str], work: Path) -> dict[str, float]:
    """One run: the client's delays in ms, and the thread's times in ms and sizes."""
    os.sync()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as data, traced_broker(Path(data), settings) as process:
        assert process.stdout is not None
        ready = READY.search(process.stdout.readline())
        assert ready is not None, "the broker did not start"
        address = ready[1]
        admin = AdminClient({"bootstrap.servers": address})
        for creation in admin.create_topics([NewTopic("paced", 1, 1)]).values():
            creation.result()
        load = LoadGenerator(compiled("load", work, (librdkafka(),)), address)
        before = trace_of(process)
        in_flight = {"max.in.flight": "5"} if arguments.rate > 5_000 else {}
        with writer_beside(Path(data), arguments.beside), Tenths(process, data) as tenths:
            delays, _ = load.paced("paced", arguments.rate, arguments.seconds, SKIP_SECONDS, RECORD_BYTES, in_flight)
        after = trace_of(process)
    found = {f"ack {name[:-3]} ms": delays[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}
    found["groups/s"] = after["appends"].since(before["appends"]).count / (arguments.seconds + SKIP_SECONDS)
    for name in TIMES:
        part = after[name].since(before[name])
        for share in (0.5, 0.99, 0.999):
            found[f"{name[:-3]} p{share * 100:g} ms"] = part.quantile(share) / 1000
    for name in SIZES:
        found[f"{name} a group"] = after[name].since(before[name]).mean
    return found | tenths.figures()


def main() -> None:
    """Measure and print a table of medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=float, default=0.0, metavar="MB", help="what somebody else writes a second")
    parser.add_argument("--directory", help="where the data directory is made; that of temporary files when not said")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--against", action="append", default=[], metavar="KEY=VALUE", help="one of the other runs")
    arguments = parser.parse_args()
    kinds = {"": arguments.set} | (
        {" ".join(arguments.against): arguments.set + arguments.against} if arguments.against else {}
    )
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as work:
        for number in range(arguments.rounds):
            for kind in kinds if number % 2 == 0 else reversed(list(kinds)):
                found[kind].append(run(arguments, kinds[kind], Path(work)))
    table = Table("", *(title for kind in kinds for title in (kind or "as it is", "all runs")))
    for name in dict.fromkeys(name for runs in found.values() for each in runs for name in each):
        cells = []
        for kind in kinds:
            values = [each[name] for each in found[kind] if name in each]
            cells += [f"{median(values):.2f}" if values else "-", " ".join(f"{value:.3g}" for value in values)]
        table.add_row(name, *cells)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
