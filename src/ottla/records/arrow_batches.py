"""Record batches of records that have their offsets already: those of an archive.

Batches are as compaction leaves them: offsets may have holes, inside of a batch too.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from ottla.native import assign_offsets, build_batch, crc32c, encode_arrow

SEGMENT_OFFSETS: Final = (1 << 31) - 1
"""Index entries and batches have offsets relative to the first, of 31 bits."""

BATCH_BYTES: Final = 512 << 10
EPOCH: Final = 0
"""The leader epoch of a topic that was created just now."""

_HEADER_BYTES: Final = 61


def batches(records: Any, *, codec: int = 0) -> Iterator[tuple[int, int, bytearray]]:
    """Batches of some rows of an archive, at least one, each with its first and last offset.

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
            codec=codec,
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
            yield _batch(group, codec)
            group, size = [], 0
        group.append(row)
        size += len(key or b"") + len(value or b"")
    if group:
        yield _batch(group, codec)


def _batch(
    rows: list[tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]], codec: int
) -> tuple[int, int, bytearray]:
    first, last = rows[0][1], rows[-1][1]
    batch = build_batch(
        [
            (stamp // 1000, key, value, [(each["key"], each["value"]) for each in headers or ()])
            for stamp, _, key, value, headers, _ in rows
        ],
        codec=codec,
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
