"""Arrow tables to batches, partitioned as the Java client does."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2

from ottla.native import build_batch, decode_arrow, decode_records, encode_arrow, validate_batches
from tests.unit.native.independent_codec import CODECS, NONE, blobs, headers, recompressed

LIMIT = 1 << 26
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

rows_of_table = st.lists(
    st.fixed_dictionaries(
        {
            "key": blobs,
            "value": blobs,
            "headers": st.none() | headers.map(lambda h: [{"key": key, "value": value} for key, value in h]),
            "partition": st.none() | st.integers(min_value=0, max_value=4),
            "timestamp": st.none() | st.integers(min_value=0, max_value=2**42),
        }
    ),
    max_size=60,
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("ms")),
    ]
)


def decoded(encoded: list[tuple[int, bytearray, int]]) -> dict[int, list[tuple[Any, ...]]]:
    """The records of each partition, in the order of its batches."""
    records: dict[int, list[tuple[Any, ...]]] = {}
    for partition, batch, count in encoded:
        (info,) = validate_batches(batch)
        assert info.record_count == count
        plain = recompressed(bytes(batch), NONE)
        records.setdefault(partition, []).extend(r[1:] for r in decode_records(plain, max_decompressed_bytes=0))
    return records


@pytest.mark.slow
@given(rows=rows_of_table, codec=st.sampled_from(CODECS), max_batch_bytes=st.sampled_from([1, 500, 1_000_000]))
def test_every_row_comes_to_its_partition_in_order(
    rows: list[dict[str, Any]], codec: int, max_batch_bytes: int
) -> None:
    table = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    encoded = encode_arrow(table, partition_count=5, now_ms=777, codec=codec, max_batch_bytes=max_batch_bytes)
    records = decoded(encoded)
    unplaced = []
    expected: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        time = 777 if row["timestamp"] is None else row["timestamp"]
        pairs = [(header["key"], header["value"]) for header in row["headers"] or []]
        record = (time, row["key"], row["value"], pairs)
        if row["partition"] is not None:
            expected.setdefault(row["partition"], []).append(record)
        elif row["key"] is not None:
            expected.setdefault((murmur2(bytearray(row["key"])) & 0x7FFFFFFF) % 5, []).append(record)
        else:
            unplaced.append(record)
    for partition, placed in expected.items():
        rest = iter(records[partition])
        assert all(record in rest for record in placed), "the order within a partition is kept"
    total = [record for part in records.values() for record in part]
    assert sorted(map(repr, total)) == sorted(map(repr, [*unplaced, *(r for part in expected.values() for r in part)]))


def test_rows_without_a_key_fill_one_batch_after_the_other() -> None:
    table = pa.record_batch({"value": [b"x" * 100] * 100})
    encoded = encode_arrow(table, partition_count=3, now_ms=0, max_batch_bytes=2000, unkeyed_start=2)
    assert [partition for partition, _, _ in encoded] == [2, 0, 1, 2, 0, 1]
    assert sum(count for _, _, count in encoded) == 100
    assert all(len(batch) <= 2000 for _, batch, _ in encoded)


def test_a_number_that_moves_on_spreads_small_tables_over_the_partitions() -> None:
    table = pa.record_batch({"value": [b"x"]})
    starts = [encode_arrow(table, partition_count=4, now_ms=0, unkeyed_start=n)[0][0] for n in range(-2, 6)]
    assert starts == [2, 3, 0, 1, 2, 3, 0, 1]


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=50), st.integers(min_value=100, max_value=1500))
def test_no_batch_is_larger_than_allowed_unless_one_record_is(values: list[bytes], max_batch_bytes: int) -> None:
    table = pa.record_batch({"value": pa.array(values, pa.binary()), "key": pa.array(values, pa.binary())})
    for _, batch, count in encode_arrow(table, partition_count=2, now_ms=0, max_batch_bytes=max_batch_bytes):
        assert count == 1 or len(batch) <= max_batch_bytes


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    table = pa.record_batch({"value": [b"a", b"x" * 5000, b"b"], "partition": pa.array([0, 0, 0], pa.int32())})
    encoded = encode_arrow(table, partition_count=1, now_ms=0, max_batch_bytes=1000)
    assert [count for _, _, count in encoded] == [1, 1, 1]


@pytest.mark.parametrize(
    "of_type",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_bytes_and_text_of_every_width(of_type: pa.DataType) -> None:
    values = pa.array(["skipped", "first", None, "a string of more than twelve bytes"], of_type)
    table = pa.record_batch({"key": values, "value": values}).slice(1)
    encoded = encode_arrow(table, partition_count=1, now_ms=5)
    plain = [b"first", None, b"a string of more than twelve bytes"]
    assert decoded(encoded) == {0: [(5, value, value, []) for value in plain]}


@pytest.mark.parametrize(
    ("of_type", "value"),
    [
        (pa.int64(), 1_500),
        (pa.timestamp("s"), 1),
        (pa.timestamp("ms"), 1_500),
        (pa.timestamp("us", tz="UTC"), 1_500_999),
        (pa.timestamp("ns", tz="Europe/Prague"), 1_500_999_999),
    ],
    ids=str,
)
def test_times_of_every_unit(of_type: pa.DataType, value: int) -> None:
    table = pa.record_batch({"value": [b"a", b"b"], "timestamp": pa.array([value, None], pa.int64()).cast(of_type)})
    times = [record[0] for record in decoded(encode_arrow(table, partition_count=1, now_ms=9))[0]]
    assert times == [1000 if of_type == pa.timestamp("s") else 1500, 9]


def test_times_before_the_epoch_are_rounded_down() -> None:
    table = pa.record_batch({"value": [b""], "timestamp": pa.array([-1], pa.timestamp("us"))})
    assert decoded(encode_arrow(table, partition_count=1, now_ms=9))[0][0][0] == -1


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_headers_of_a_slice(list_of: Any) -> None:
    pairs = [[{"key": "skipped", "value": b"0"}], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []]
    column = pa.array(pairs, list_of(HEADERS_TYPE.value_type))
    table = pa.record_batch({"value": [b"v"] * 4, "headers": column}).slice(1)
    records = decoded(encode_arrow(table, partition_count=1, now_ms=0))[0]
    assert [record[3] for record in records] == [[("a", b"1"), ("b", None)], [], []]


def test_columns_of_nothing_but_null_have_no_type() -> None:
    nulls = pa.nulls(2)
    table = pa.record_batch({"key": nulls, "value": nulls, "headers": nulls, "partition": nulls, "timestamp": nulls})
    assert decoded(encode_arrow(table, partition_count=1, now_ms=3)) == {0: [(3, None, None, [])] * 2}


def test_a_struct_array_will_do_and_an_empty_table_makes_no_batches() -> None:
    array = pa.array([{"key": b"k", "value": b"v"}])
    assert decoded(encode_arrow(array, partition_count=1, now_ms=3)) == {0: [(3, b"k", b"v", [])]}
    assert encode_arrow(array.slice(1), partition_count=1, now_ms=3) == []


def test_what_was_decoded_can_be_encoded_again() -> None:
    batch = build_batch([(i, b"k%d" % i, b"v", [("h", b"x")]) for i in range(100)])
    table = decode_arrow(
        batch,
        max_decompressed_bytes=0,
        start_offset=0,
        end_offset=2**62,
        topic="t",
        partition=0,
        include_headers=True,
    )
    columns = pa.record_batch(table).select(["key", "value", "headers", "partition", "timestamp"])
    ((partition, again, _),) = encode_arrow(columns, partition_count=1, now_ms=0)
    assert (partition, again) == (0, batch)


@pytest.mark.parametrize(
    ("columns", "error", "what"),
    [
        ({"key": [b"k"]}, TypeError, "value is missing"),
        ({"value": [b"v"], "keys": [b"k"]}, TypeError, "no use for the column keys"),
        ({"value": [1]}, TypeError, "value must be binary or string"),
        ({"value": [b"v"], "partition": [0]}, TypeError, "partition must be int32"),
        ({"value": [b"v"], "timestamp": ["now"]}, TypeError, "timestamp must be"),
        ({"value": [b"v"], "headers": [["a"]]}, TypeError, "headers must be"),
        ({"value": [b"v"], "headers": [b"a"]}, TypeError, "headers must be"),
        ({"value": [b"v"], "headers": [[{"name": "a", "value": b""}]]}, TypeError, "headers must be"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b""}]]}, ValueError, "row 0: a header has no key"),
        ({"value": [b"v"], "partition": pa.array([8], pa.int32())}, ValueError, "row 0: there is no partition 8"),
        ({"value": [b"v"], "partition": pa.array([-1], pa.int32())}, ValueError, "row 0: there is no partition -1"),
    ],
)
def test_columns_and_cells_that_cannot_be_used_are_named(
    columns: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        encode_arrow(pa.record_batch(columns), partition_count=8, now_ms=0)


def test_what_is_no_table_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Arrow"):
        encode_arrow(b"bytes", partition_count=1, now_ms=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not Int64"):
        encode_arrow(pa.array([1]), partition_count=1, now_ms=0)
    with pytest.raises(ValueError, match="a row is null"):
        encode_arrow(pa.array([{"value": b""}, None]), partition_count=1, now_ms=0)
    with pytest.raises(ValueError, match="0 partitions"):
        encode_arrow(pa.record_batch({"value": [b""]}), partition_count=0, now_ms=0)
