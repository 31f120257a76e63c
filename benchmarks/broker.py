"""One broker as a user has it: start-up, idle memory, produce and consume with confluent-kafka, and what it cost.

    .venv/bin/python benchmarks/broker.py [--megabytes 1000] [--json FILE]

The client is librdkafka's, in this process; the broker runs in another one. CPU seconds are the broker's, from
/proc/PID/stat. Everything is on one machine, so the client and the broker share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

TICKS = os.sysconf("SC_CLK_TCK")
READY = re.compile(r"kafka (\S+)")


@dataclass(frozen=True)
class Row:
    """One measurement."""

    work: str
    result: str
    user_seconds_per_gb: float | None = None
    system_seconds_per_gb: float | None = None


def cpu_seconds(pid: int) -> tuple[float, float]:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def pss_mb(pid: int) -> float:
    """Proportional set size, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no Pss line")


@contextmanager
def running_broker(data: Path, settings: list[str]) -> Iterator[tuple[int, str, float]]:
    """A broker's pid, address and milliseconds from exec to the ready line."""
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(data), "--kafka", "127.0.0.1:0"]
    for setting in settings:
        command += ["--set", setting]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    ready_ms = (time.perf_counter() - begun) * 1000
    match = READY.search(line)
    if match is None:
        raise SystemExit(f"the broker did not start: {line!r}")
    try:
        yield process.pid, match[1].rstrip(","), ready_ms
    finally:
        process.terminate()
        process.wait()


def produce(bootstrap: str, topic: str, size: int, count: int, acks: str) -> float:
    """Seconds to have `count` records of `size` bytes acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    value = os.urandom(size)
    begun = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    elapsed = time.perf_counter() - begun
    if failures:
        raise SystemExit(f"{len(failures)} records failed, the first: {failures[0]}")
    return elapsed


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Seconds to read `count` records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    begun = time.perf_counter()
    seen = 0
    while seen < count:
        seen += len(consumer.consume(10_000, 1.0))
    elapsed = time.perf_counter() - begun
    consumer.close()
    return elapsed


def measure(megabytes: int, settings: list[str]) -> list[Row]:
    """Every row, on one broker with fresh data."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "data", settings) as (pid, bootstrap, ready_ms),
    ):
        rows.append(Row("start to ready", f"{ready_ms:.0f} ms"))
        rows.append(Row("memory when idle", f"{pss_mb(pid):.0f} MB (PSS)"))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for size, acks in ((100, "all"), (1000, "all"), (1000, "1"), (10_000, "all")):
            topic = f"produce-{size}-{acks}"
            for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
                future.result()
            count = (megabytes if size > 100 else megabytes // 4) * 1_000_000 // size
            gigabytes = count * size / 1e9
            before = cpu_seconds(pid)
            seconds = produce(bootstrap, topic, size, count, acks)
            after = cpu_seconds(pid)
            rows.append(
                Row(
                    f"produce {size} B, acks={acks}",
                    f"{gigabytes * 1000 / seconds:.0f} MB/s, {count / seconds:,.0f}/s",
                    (after[0] - before[0]) / gigabytes,
                    (after[1] - before[1]) / gigabytes,
                )
            )
            if acks == "all":
                before = after
                seconds = consume(bootstrap, topic, count)
                after = cpu_seconds(pid)
                rows.append(
                    Row(
                        f"consume {size} B",
                        f"{gigabytes * 1000 / seconds:.0f} MB/s, {count / seconds:,.0f}/s",
                        (after[0] - before[0]) / gigabytes,
                        (after[1] - before[1]) / gigabytes,
                    )
                )
        rows.append(Row("memory after the load", f"{pss_mb(pid):.0f} MB (PSS)"))
    return rows


def main() -> None:
    """Measure, print a table, write JSON when asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1000, help="how much each row sends")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    rows = measure(arguments.megabytes, arguments.set)
    table = Table("work", "result", "broker user s/GB", "broker system s/GB")
    for row in rows:
        costs = (row.user_seconds_per_gb, row.system_seconds_per_gb)
        table.add_row(row.work, row.result, *("" if cost is None else f"{cost:.2f}" for cost in costs))
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
