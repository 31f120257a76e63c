"""Batches to the Arrow columns that Spark's Kafka source has."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import assign_offsets, build_batch, decode_arrow, decode_records
from ottla.native.errors import CorruptRecordError, DecompressionLimitError
from tests.unit.native.independent_codec import CODECS, Record, records

LIMIT = 1 << 24
END = 2**63 - 1


def table(data: bytes | bytearray, start: int = 0, end: int = END, *, headers: bool = True) -> pa.RecordBatch:
    decoded = decode_arrow(
        data,
        max_decompressed_bytes=LIMIT,
        start_offset=start,
        end_offset=end,
        topic="flüge",
        partition=7,
        include_headers=headers,
    )
    batch = pa.record_batch(decoded)
    batch.validate(full=True)
    assert len(decoded) == batch.num_rows
    return batch


def test_the_schema_can_be_asked_for_alone() -> None:
    decoded = decode_arrow(
        b"", max_decompressed_bytes=0, start_offset=0, end_offset=0, topic="t", partition=0, include_headers=True
    )
    assert pa.schema(decoded) == pa.record_batch(decoded).schema


@pytest.mark.slow
@given(runs=st.lists(st.tuples(st.sampled_from(CODECS), records), max_size=4), data=st.data())
def test_rows_are_the_records_that_are_decoded_to_tuples(
    runs: list[tuple[int, list[Record]]], data: st.DataObject
) -> None:
    log, offset = b"", 10
    for codec, items in runs:
        log += build_batch(items, codec=codec, base_offset=offset)
        offset += len(items) + 3
    start = data.draw(st.integers(min_value=0, max_value=offset + 2))
    end = data.draw(st.integers(min_value=0, max_value=offset + 2))
    rows = table(log, start, end).to_pylist()
    expected = [
        record for record in decode_records(log, max_decompressed_bytes=LIMIT, start_offset=start) if record[0] < end
    ]
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [(r[0], r[2], r[3]) for r in expected]
    assert [[(h["key"], h["value"]) for h in row["headers"] or []] for row in rows] == [r[4] for r in expected]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    times = [(row["timestamp"] - epoch) / datetime.timedelta(milliseconds=1) for row in rows]
    assert times == [record[1] for record in expected]
    assert all((row["topic"], row["partition"], row["timestampType"]) == ("flüge", 7, 0) for row in rows)


def test_a_record_without_headers_has_null_as_in_sparks_source() -> None:
    log = build_batch([(0, None, b"", []), (0, None, b"", [("a", None)])])
    assert table(log).column("headers").to_pylist() == [None, [{"key": "a", "value": None}]]


def test_the_brokers_timestamps_are_told_from_the_producers() -> None:
    log = bytearray(build_batch([(5, None, b"", [])] * 2) + build_batch([(6, None, b"", [])]))
    first = len(build_batch([(5, None, b"", [])] * 2))
    assign_offsets(log, 0, 0)
    assign_offsets(memoryview(log)[:first], 0, 0, log_append_time_ms=99)
    rows = table(log)
    assert rows.column("timestampType").to_pylist() == [1, 1, 0]
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [99_000, 99_000, 6_000]


def test_control_batches_and_the_part_of_a_batch_at_the_end_are_left_out() -> None:
    data = build_batch([(0, None, b"a", [])])
    control = build_batch([(0, b"\0\0\0\1", b"", [])], base_offset=1, is_control=True)
    assert table(data + control + data[:-1]).column("offset").to_pylist() == [0]


def test_batches_after_the_end_offset_are_not_even_checked() -> None:
    good = build_batch([(0, None, b"a", [])] * 3)
    bad = bytearray(build_batch([(0, None, b"b", [])], base_offset=3))
    bad[-1] ^= 1
    assert table(good + bad, end=3).num_rows == 3
    with pytest.raises(CorruptRecordError):
        table(good + bad, end=4)


def test_timestamps_that_microseconds_cannot_say_are_capped() -> None:
    largest = pa.scalar(2**63 - 1, pa.int64())
    rows = table(build_batch([(2**63 - 1, None, b"", [])]))
    assert rows.column("timestamp").cast(pa.int64())[0] == largest


def test_rows_outlive_the_bytes_they_came_from() -> None:
    log = bytearray(build_batch([(0, b"key", b"value", [])]))
    rows = table(log)
    log[:] = bytes(len(log))
    assert rows.column("value").to_pylist() == [b"value"]


def test_what_expands_beyond_the_limit_is_refused() -> None:
    log = build_batch([(0, None, bytes(1 << 16), [])], codec=4)
    with pytest.raises(DecompressionLimitError):
        decode_arrow(
            log,
            max_decompressed_bytes=1 << 16,
            start_offset=0,
            end_offset=END,
            topic="t",
            partition=0,
            include_headers=False,
        )


def test_a_column_of_more_than_2_gb_is_refused_and_not_wrapped_around() -> None:
    log = build_batch([(0, None, None, [])] * 10_000)
    with pytest.raises(DecompressionLimitError, match="2 GB"):
        decode_arrow(
            log,
            max_decompressed_bytes=0,
            start_offset=0,
            end_offset=END,
            topic="t" * 300_000,
            partition=0,
            include_headers=False,
        )
