"""Copiers one behind the other: what comes out at the end is exactly what went in, whoever dies when.

source --> confluent-kafka --> copied-1 --> aiokafka --> copied-2
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.read_back import read_partition
from ottla.simulation.anomaly import Anomaly, Violation
from workload.worker import PATIENCE_S, Worker

SOURCE = "chain-source"
LINKS = ((SOURCE, "copied-1", "chaos.copier"), ("copied-1", "copied-2", "chaos.aiokafka_copier"))
"""From which topic to which, and the program that copies: each is of another client library."""
TOPICS = (SOURCE, "copied-1", "copied-2")
PARTITION_COUNT = 2
POLL_S = 0.05


class CopierChain(Worker):
    """Keeps a process for each link, and starts another when one has ended."""

    def __init__(self, bootstrap: str, log_path: Path) -> None:
        """What they say when they end comes to `log_path`."""
        super().__init__("copiers")
        self._bootstrap = bootstrap
        self._log_path = log_path
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * len(LINKS)
        self.started_count = 0
        """How many processes there were."""

    def run(self) -> None:
        """See the class."""
        try:
            while not self.is_stopping:
                for index, process in enumerate(self._processes):
                    if process is None or process.poll() is not None:
                        self._processes[index] = self._start(index)
                time.sleep(POLL_S)
        finally:
            for process in self._processes:
                if process is not None:
                    process.kill()
                    process.wait()

    def kill_one(self, rng: Random) -> None:
        """kill -9 one of them."""
        process = rng.choice(self._processes)
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()

    def _start(self, index: int) -> "subprocess.Popen[bytes]":
        self.started_count += 1
        source, target, program = LINKS[index]
        names = (self._bootstrap, source, target, f"copier-{index}", str(PARTITION_COUNT))
        with self._log_path.open("a") as log:
            return subprocess.Popen([sys.executable, "-m", program, *names], stderr=log)


def check_copies(bootstrap: str) -> Iterator[Violation]:
    """What is wrong with the copies, once the copiers had the time to come to the end."""
    for partition in range(PARTITION_COUNT):
        original = [each.value for each in read_partition(bootstrap, SOURCE, partition)]
        for _, target, _ in LINKS:
            copied = _read_until(bootstrap, target, partition, len(original))
            if copied != original:
                yield Violation(Anomaly.COPIED_WRONG, f"{target}-{partition}: {_difference(original, copied)}")


def _read_until(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = [each.value for each in read_partition(bootstrap, topic, partition)]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)


def _difference(original: list[bytes | None], copied: list[bytes | None]) -> str:
    same = sum(1 for _ in _equal_head(original, copied))
    return f"{len(copied)} records of {len(original)}, the same up to number {same}"


def _equal_head(original: list[bytes | None], copied: list[bytes | None]) -> Iterator[bytes | None]:
    for one, other in zip(original, copied, strict=False):
        if one != other:
            return
        yield one
