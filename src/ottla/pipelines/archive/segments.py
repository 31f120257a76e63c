"""Writes segment files from archived records, which keep their offsets.

A producer cannot choose offsets, so the files are written as compaction would leave them: batches whose offsets have
holes, and, where a log ends in offsets without a record, a batch without records that ends there:

```
  archived       [100 .. 103]  [107]  (up to 120: aborted, compacted)
  00...100.log   batch 100-103 | batch 107-107 | batch 108-119 without a record
```
"""

from pathlib import Path
from typing import Any, Final

from ottla.records.arrow_batches import SEGMENT_OFFSETS, batch_without_records, batches
from ottla.runtime.disk import Disk

SEGMENT_BYTES: Final = 512 << 20
BATCH_ROWS: Final = 10_000
_ZSTD: Final = 4
_PENDING_BYTES: Final = 4 << 20


class SegmentWriter:
    """Writes the log of one partition into its directory, which has no segments yet."""

    def __init__(self, directory: Path, start: int, disk: Disk) -> None:
        self.next_offset = start
        self._directory = directory
        self._disk = disk
        self._pending = bytearray()
        self._begin(start)

    def append(self, records: Any) -> None:
        """Rows of an archive, in the order of their offsets, none below `next_offset`."""
        for start in range(0, records.num_rows, BATCH_ROWS):
            for first, last, batch in batches(records.slice(start, BATCH_ROWS), codec=_ZSTD):
                self._write(first, last, batch)

    def finish(self, end: int) -> None:
        """Sets the end offset of the log, and makes it durable."""
        while self.next_offset < end:
            last = min(end - 1, self.next_offset + SEGMENT_OFFSETS - 1)
            self._write(self.next_offset, last, batch_without_records(self.next_offset, last))
        self._end()
        self._disk.sync_dir(self._directory)

    def _write(self, first: int, last: int, batch: bytes | bytearray) -> None:
        if self._size and (self._size + len(batch) > SEGMENT_BYTES or last - self._base >= SEGMENT_OFFSETS):
            self._end()
            self._begin(first)
        self._pending += batch
        self._size += len(batch)
        self.next_offset = last + 1
        if len(self._pending) >= _PENDING_BYTES:
            self._flush()

    def _begin(self, base: int) -> None:
        self._base, self._size = base, 0
        self._path = self._directory / f"{base:020d}.log"
        self._disk.write(self._path, b"")

    def _flush(self) -> None:
        self._disk.append(self._path, bytes(self._pending))
        self._pending.clear()

    def _end(self) -> None:
        self._flush()
        self._disk.sync_file(self._path)
