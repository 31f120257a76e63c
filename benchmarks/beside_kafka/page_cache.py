"""Memory filled with clean page cache, as on a broker that has run for a day.

On a virtual machine the first touch of a page, and of a page another process freed, costs seconds of system time a
GB and would swamp what is measured. Once free memory is gone, new page cache is taken from old, which is cheap. A
sparse file larger than the memory is read round and round; its pages cost no disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside_kafka.process_usage import kilobytes_of

MEMINFO = Path("/proc/meminfo")
CHUNK = 8 << 20
ENOUGH_MB = 600  # the kernel keeps some memory free on purpose
LARGER_THAN_MEMORY = 1.25


def free_mb() -> float:
    """Memory that nothing uses, not even as page cache."""
    return kilobytes_of(MEMINFO.read_text(), "MemFree") / 1024


@dataclass
class PageCacheFiller:
    """Reads its sparse file until little memory is free, going on each time where it stopped."""

    path: Path
    free_mb: Callable[[], float] = free_mb
    position: int = 0

    def fill(self) -> float:
        """Fills what is free; returns how many MB were read.

        What was written before goes to the disk first, so that a row does not pay for the one before it.
        """
        os.sync()
        memory_mb = kilobytes_of(MEMINFO.read_text(), "MemTotal") / 1024
        size = int(memory_mb * LARGER_THAN_MEMORY) << 20
        with self.path.open("ab") as file:
            file.truncate(size)
        buffer = bytearray(CHUNK)
        read = 0
        with self.path.open("rb", buffering=0) as file:
            while self.free_mb() > ENOUGH_MB and read < size:
                file.seek(self.position)
                file.readinto(buffer)
                self.position = (self.position + CHUNK) % size
                read += CHUNK
        return read / (1 << 20)
