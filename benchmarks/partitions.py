"""What many partitions cost: making, listing, starting with, writing to, stopping and deleting them.

    .venv/bin/python -m benchmarks.partitions [--partitions 1000 10000] [--per-topic 10] [--json FILE]

One broker, driven through Ottla's own client. Seconds of CPU are the broker's, in all its threads.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.startup import cpu_seconds, free_port, pss_mb

READY_TIMEOUT_S = 120
REQUEST = {"request_timeout": 120.0, "operation_timeout": 120.0}


@dataclass(frozen=True)
class Row:
    """One measurement; `open_files` and `memory_mb` are the broker's afterwards."""

    partitions: int
    work: str
    seconds: float
    cpu_s: float
    memory_mb: float
    open_files: int


class BrokerUnderTest:
    """An `ottla serve` that is started, stopped and killed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and wait for the ready line."""
        command = [str(Path(sys.executable).with_name("ottla")), "serve", "--data", str(self._data)]
        command += ["--kafka", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(f"the broker did not start: {line!r}")

    def end(self, signal_number: signal.Signals) -> None:
        """Stop or kill it and wait for its end."""
        assert self.process is not None
        self.process.send_signal(signal_number)
        self.process.wait()
        self.process = None


def measure(count: int, per_topic: int) -> Iterator[Row]:
    """Every row for so many partitions."""
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerUnderTest(Path(directory) / "data")
        broker.start()
        names = [f"topic-{number:05d}" for number in range(max(1, count // per_topic))]
        each = min(count, per_topic)

        def timed(work: str, action: Callable[[], object]) -> Row:
            cpu = cpu_seconds(broker.pid)
            begun = time.perf_counter()
            action()
            seconds = time.perf_counter() - begun
            used = cpu_seconds(broker.pid) - cpu
            return row(work, seconds, used)

        def row(work: str, seconds: float, used: float) -> Row:
            files = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
            return Row(count, work, round(seconds, 3), round(used, 3), round(pss_mb(broker.pid), 1), files)

        def restarted(work: str, ending: signal.Signals) -> Iterator[Row]:
            begun = time.perf_counter()
            broker.end(ending)
            ended = time.perf_counter() - begun
            begun = time.perf_counter()
            broker.start()
            started = time.perf_counter() - begun
            yield row(f"{work}: end", ended, 0.0)
            yield row(f"{work}: start", started, cpu_seconds(broker.pid))

        yield timed("create", lambda: create(broker.bootstrap, names, each))
        yield timed("metadata of all", lambda: AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics())
        yield from restarted("clean, empty", signal.SIGTERM)
        yield timed("a record to each", lambda: produce(broker.bootstrap, names, each))
        yield timed("read all of them", lambda: consume(broker.bootstrap, names, each))
        yield from restarted("killed, written to", signal.SIGKILL)
        yield timed("a record to each, again", lambda: produce(broker.bootstrap, names, each))
        yield from restarted("clean, written to", signal.SIGTERM)
        yield timed("delete", lambda: delete(broker.bootstrap, names))
        broker.end(signal.SIGTERM)


def create(bootstrap: str, names: list[str], partitions: int) -> None:
    """All topics in one request."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names], **REQUEST).values():
        future.result()


def delete(bootstrap: str, names: list[str]) -> None:
    """All topics in one request."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(names, **REQUEST).values():
        future.result()


def produce(bootstrap: str, names: list[str], partitions: int) -> None:
    """One record to each partition, all acknowledged."""
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20})

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for name in names:
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(name, b"v" * 100, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
    producer.flush()
    if failures:
        raise SystemExit(f"{len(failures)} records failed, the first: {failures[0]}")


def consume(bootstrap: str, names: list[str], partitions: int) -> None:
    """The first record of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, partition, 0) for name in names for partition in range(partitions)])
    seen: set[tuple[str | None, int | None]] = set()
    while len(seen) < len(names) * partitions:
        for message in consumer.consume(1000, 1.0):
            seen.add((message.topic(), message.partition()))
    consumer.close()


def main() -> None:
    """Measure, print a table, and write the rows to a file when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 100, 1000, 10_000])
    parser.add_argument("--per-topic", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed broker has its bytecode beside it
    rows = []
    print(f"{'partitions':>10} {'':28} {'seconds':>9} {'CPU s':>8} {'MB':>7} {'files':>7}")
    for count in arguments.partitions:
        for row in measure(count, arguments.per_topic):
            rows.append(row)
            print(
                f"{row.partitions:10} {row.work:28} {row.seconds:9.3f} {row.cpu_s:8.3f} "
                f"{row.memory_mb:7.1f} {row.open_files:7}"
            )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
