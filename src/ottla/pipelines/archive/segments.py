"""Segment files of a log from archived records: each at the offset that it had.

A producer cannot choose offsets, so the files are written as compaction would leave them: batches whose offsets have
holes, and, where a log ends in offsets without a record, a batch without records that ends there:

```
  archived       [100 .. 103]  [107]  (up to 120: aborted, compacted)
  00...100.log   batch 100-103 | batch 107-107 | batch 108-119 without a record
```
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ottla.native import assign_offsets, build_batch, crc32c, encode_arrow
from ottla.runtime.disk import Disk

SEGMENT_BYTES: Final = 512 << 20
SEGMENT_OFFSETS: Final = (1 << 31) - 1
"""Index entries and batches have offsets relative to the first, of 31 bits."""

BATCH_BYTES: Final = 512 << 10
BATCH_ROWS: Final = 10_000
EPOCH: Final = 0
"""The leader epoch of a topic that was created just now."""

_ZSTD: Final = 4
_HEADER_BYTES: Final = 61
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
            for first, last, batch in batches(records.slice(start, BATCH_ROWS)):
                self._write(first, last, batch)

    def finish(self, end: int) -> None:
        """Have the log end at this offset, and make it durable."""
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


def batches(records: Any) -> Iterator[tuple[int, int, bytearray]]:
    """Batches of some rows, each with its first and last offset.

    Rows without a hole between them are encoded at once. Those with the broker's timestamps go into one batch as long
    as they have the same, because such a batch has only one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    count = records.num_rows
    offsets, types = records["offset"], records["timestampType"]
    stamps = records["timestamp"].cast(pa.int64())
    first, last = offsets[0].as_py(), offsets[count - 1].as_py()
    by_broker = pc.any(pc.equal(types, 1)).as_py()
    if last - first == count - 1 and not by_broker:
        for _, batch, taken in encode_arrow(
            pa.record_batch(
                {name: records[name] for name in ("key", "value", "headers", "timestamp")},
            ),
            partition_count=1,
            now_ms=0,
            codec=_ZSTD,
            max_batch_bytes=BATCH_BYTES,
        ):
            assign_offsets(batch, first, EPOCH)
            yield first, first + taken - 1, batch
            first += taken
        return
    names = ["offset", "key", "value", "headers", "timestampType"]
    rows = zip(stamps.to_pylist(), *(records[name].to_pylist() for name in names), strict=True)
    group: list[tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]] = []
    size = 0
    for row in rows:
        stamp, offset, key, value, _, kind = row
        begun = group[0] if group else row
        other_time = kind != begun[5] or (kind == 1 and stamp != begun[0])
        if group and (other_time or size >= BATCH_BYTES or offset - begun[1] >= SEGMENT_OFFSETS):
            yield _batch(group)
            group, size = [], 0
        group.append(row)
        size += len(key or b"") + len(value or b"")
    if group:
        yield _batch(group)


def _batch(
    rows: list[tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]],
) -> tuple[int, int, bytearray]:
    first, last = rows[0][1], rows[-1][1]
    batch = build_batch(
        [
            (stamp // 1000, key, value, [(each["key"], each["value"]) for each in headers or ()])
            for stamp, _, key, value, headers, _ in rows
        ],
        codec=_ZSTD,
        base_offset=first,
        leader_epoch=EPOCH,
        offsets=[row[1] for row in rows],
    )
    if rows[0][5] == 1:
        assign_offsets(batch, first, EPOCH, rows[0][0] // 1000)
    return first, last, batch


def batch_without_records(first: int, last: int) -> bytes:
    """What compaction leaves of a batch whose records are all gone: its header, so that offsets go on behind it."""
    batch = build_batch([(0, None, None, [])], base_offset=first, leader_epoch=EPOCH)[:_HEADER_BYTES]
    struct.pack_into(">i", batch, 8, _HEADER_BYTES - 12)
    struct.pack_into(">i", batch, 23, last - first)
    struct.pack_into(">i", batch, 57, 0)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)
