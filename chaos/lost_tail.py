"""A power cut of the only broker as far as one topic goes: what was written last is not on the disk."""

import re
import struct
from pathlib import Path
from random import Random

from tests.cluster import Cluster

LOST_BATCHES = 40
TORN_BYTES = 60
"""So much of the first batch that is lost may be there."""
VALUE = re.compile(rb"[a-z]+-\d+@\d{13}")


def lose_tail(cluster: Cluster, topic: str, partitions: int, rng: Random) -> set[str]:
    """Kill the broker, take the end of each partition's log away, start it again. The keys of the records that are
    gone; some of these may be written again by producers that try again.
    """
    (broker,) = cluster.brokers.values()
    broker.kill()
    lost: set[str] = set()
    for partition in range(partitions):
        newest = max((broker.data_dir / f"{topic}-{partition}").glob("*.log"))
        lost |= _cut(newest, rng)
    broker.start()
    return lost


def _cut(segment: Path, rng: Random) -> set[str]:
    data = segment.read_bytes()
    starts = batch_starts(data)
    if len(starts) < 2:
        return set()
    cut = starts[-rng.randrange(1, min(LOST_BATCHES, len(starts)))]
    with segment.open("r+b") as file:
        file.truncate(min(len(data), cut + rng.choice((0, rng.randrange(TORN_BYTES)))))
    return {each.decode() for each in VALUE.findall(data[cut:])}


def batch_starts(data: bytes) -> list[int]:
    """Where the batches of a segment begin: offset and length are before each."""
    found, at = [], 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size <= 0:
            break
        found.append(at)
        at += 12 + size
    return found
