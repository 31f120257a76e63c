"""Whether the replicas of a partition are the same, byte for byte, in the brokers' files."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla.simulation.anomaly import Anomaly, Violation
from ottla.simulation.history import Partition
from workload.worker import PATIENCE_S

POLL_S = 0.2


def check_replicas(directories: Iterable[Path], partitions: Iterable[Partition]) -> Iterator[Violation]:
    """What differs once everybody had the time to copy what is there; nobody may write meanwhile."""
    directories = list(directories)
    for topic, partition in partitions:
        name = f"{topic}-{partition}"
        deadline = time.monotonic() + PATIENCE_S
        replicas = _replicas(directories, name)
        while len(set(replicas.values())) != 1 and time.monotonic() < deadline:
            time.sleep(POLL_S)
            replicas = _replicas(directories, name)
        if len(set(replicas.values())) != 1:
            sizes = ", ".join(f"{path}: {len(content)} bytes" for path, content in replicas.items())
            yield Violation(Anomaly.REPLICAS_DIFFER, f"{name}: {sizes}")


def _replicas(directories: Iterable[Path], name: str) -> dict[Path, bytes]:
    return {path: _content(path) for directory in directories if (path := directory / name).is_dir()}


def _content(log: Path) -> bytes:
    """All batches of a log, wherever its segments begin."""
    return b"".join(segment.read_bytes() for segment in sorted(log.glob("*.log")))
