"""Segment files: every record at the offset that it had."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.native import decode_arrow, decode_records, walk_batches
from ottla.pipelines.archive import segments
from ottla.pipelines.archive.file_writer import arrow_schema
from ottla.pipelines.archive.segments import SegmentWriter
from ottla.records.arrow_batches import SEGMENT_OFFSETS
from ottla.runtime.disk import OsDisk


def rows(offsets: list[int], *, kind: int = 0, stamps: list[int] | None = None) -> pa.RecordBatch:
    """Records that say their offset; every third without a value, every second with headers."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": None if offset % 4 == 0 else b"k%d" % offset,
                "value": None if offset % 3 == 0 else b"v%d" % offset,
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "timestamp": (stamps[index] if stamps else offset * 7 - 1) * 1000,
                "timestampType": kind,
                "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"\xff"}] if offset % 2 else None,
            }
            for index, offset in enumerate(offsets)
        ],
        schema=arrow_schema(),
    )


def written(directory: Path, start: int, end: int, *batches: pa.RecordBatch) -> bytes:
    writer = SegmentWriter(directory, start, OsDisk())
    for batch in batches:
        writer.append(batch)
    writer.finish(end)
    return b"".join(file.read_bytes() for file in sorted(directory.iterdir()))


def decoded(data: bytes) -> pa.RecordBatch:
    return pa.record_batch(
        decode_arrow(
            data,
            max_decompressed_bytes=1 << 24,
            start_offset=0,
            end_offset=1 << 60,
            topic="t",
            partition=0,
            include_headers=True,
        )
    )


@pytest.mark.parametrize(
    "offsets",
    [range(1000, 1100), [5], [7, 8, 12, 13, 40], [0, 3_000_000_000, 3_000_000_001]],
    ids=["without holes", "one", "with holes", "far apart"],
)
@pytest.mark.parametrize("kind", [0, 1], ids=["time of the producer", "time of the broker"])
def test_records_come_back_as_they_were(tmp_path, offsets, kind):
    offsets = [*offsets]
    stamps = [1000 + index // 3 for index in range(len(offsets))] if kind else None
    batch = rows(offsets, kind=kind, stamps=stamps)
    data = written(tmp_path, offsets[0], offsets[-1] + 1, batch)
    assert decoded(data).equals(batch)


def test_offsets_without_a_record_at_the_end_are_not_given_again(tmp_path):
    data = written(tmp_path, 0, 5_000_000_000, rows([0, 1]))
    found, _, error = walk_batches(data, check_crc=True)
    assert error is None
    assert (found[-1].last_offset, found[-1].record_count) == (4_999_999_999, 0)
    assert [each[0] for each in decode_records(data, max_decompressed_bytes=1 << 20)] == [0, 1]
    for file in tmp_path.iterdir():
        inside, _, _ = walk_batches(file.read_bytes(), check_crc=True)
        assert inside[-1].last_offset - int(file.stem) <= SEGMENT_OFFSETS


def test_a_log_without_a_record_begins_where_it_began(tmp_path):
    assert written(tmp_path, 77, 77) == b""
    assert [file.name for file in tmp_path.iterdir()] == [f"{77:020d}.log"]


def test_segments_are_rolled_by_size(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(segments, "BATCH_ROWS", 10)
    batch = rows([*range(100)])
    data = written(tmp_path, 0, 100, batch)
    assert len([*tmp_path.iterdir()]) > 1
    assert decoded(data).equals(batch)
    for file in tmp_path.iterdir():
        assert walk_batches(file.read_bytes(), check_crc=True)[0][0].base_offset == int(file.stem)
