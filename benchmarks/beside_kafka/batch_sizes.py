"""How large the batches are that a consumer is given: what the producer made of the time that the broker left it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

_PREFIX = struct.Struct(">qi")  # base offset, length of what follows


def kilobytes_a_batch(log_directory: Path, topic: str) -> float:
    """The mean over all batches of a topic, in KB (10^3 bytes)."""
    sizes = [size for path in log_directory.glob(f"{topic}-*/*.log") for size in _sizes(path)]
    return sum(sizes) / len(sizes) / 1e3 if sizes else 0.0


def _sizes(path: Path) -> Iterator[int]:
    with path.open("rb", buffering=0) as file:
        position = 0
        while len(prefix := os.pread(file.fileno(), _PREFIX.size, position)) == _PREFIX.size:
            _, length = _PREFIX.unpack(prefix)
            if length <= 0:  # nothing is written behind the last batch
                return
            yield _PREFIX.size + length
            position += _PREFIX.size + length
