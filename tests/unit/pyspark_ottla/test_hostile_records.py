"""Records that a data frame may ask for are written as they are, or refused with the row and the column."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import decode_records, encode_arrow, validate_batches

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TEXT = st.none() | st.text(max_size=4) | st.sampled_from(["\0", "é", "a" * 70])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=70),
            "value": st.none() | st.binary(max_size=9_000),
            "headers": st.none()
            | st.lists(
                st.none() | st.fixed_dictionaries({"key": TEXT, "value": st.none() | st.binary(max_size=4)}), max_size=3
            ),
            "partition": st.none() | st.integers(0, 2) | st.sampled_from([-1, 3, -(1 << 31), (1 << 31) - 1]),
            "timestamp": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        }
    ),
    min_size=1,
    max_size=6,
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def wrong(row: dict) -> str | None:
    if any(each is None or each["key"] is None for each in row["headers"] or ()):
        return "header"
    if row["partition"] is not None and not 0 <= row["partition"] < 3:
        return f"there is no partition {row['partition']}, the topic has 3"
    return None


@settings(max_examples=200, deadline=None)
@given(ROWS, st.sampled_from([100, 10_000]))
def test_a_record_is_written_as_it_is_or_refused_with_its_row(rows, max_batch_bytes):
    table = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    reasons = {number: wrong(row) for number, row in enumerate(rows)}

    def encode():
        return encode_arrow(table, partition_count=3, now_ms=7, max_batch_bytes=max_batch_bytes)

    for number, reason in reasons.items():
        if reason is not None:
            with pytest.raises(ValueError, match=f"row {number}: .*{reason}"):
                encode()
            return
    found = []
    for partition, batch, _ in encode():
        validate_batches(batch)
        found += [(partition, *record[1:]) for record in decode_records(bytes(batch), max_decompressed_bytes=0)]
    expected = []
    for row in rows:
        time = 7 if row["timestamp"] is None else row["timestamp"] // 1000
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        expected.append((time, row["key"], row["value"], headers))
    assert sorted(map(repr, (each[1:] for each in found))) == sorted(map(repr, expected))
    placed = {row["partition"] for row in rows} - {None}
    assert placed <= {partition for partition, *_ in found}
