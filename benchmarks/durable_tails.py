"""How long an acknowledgement takes that waits for the disk, at a fixed rate, and where the time goes.

    .venv/bin/python -m benchmarks.durable_tails [--rate 20000] [--seconds 8] [--rounds 3] [--set key=value]...

The load is that of `beside_kafka`, the broker one of its own with `--set`. With `--against key=value` each round is one
run with and one run without these settings, in turns, since the machine is not the same for long. Times of the log I/O
thread are upper bounds of its histograms' buckets.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

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
    return found


def main() -> None:
    """Measure and print a table of medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
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
    for name in next(iter(found.values()))[0]:
        cells = []
        for kind in kinds:
            values = [each[name] for each in found[kind]]
            cells += [f"{median(values):.2f}", " ".join(f"{value:.3g}" for value in values)]
        table.add_row(name, *cells)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
