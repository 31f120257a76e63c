"""The rows of a table are compared by columns, whatever their order and types."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.replay.replayed import ReplayError
from ottla.pipelines.replay.sides import _row, table_rows
from ottla.pipelines.spec.model import TableSink

SINK = TableSink(name="lake", input="events", format="delta", path="lake")


def table(path: Path, names: list[str]) -> str:
    import pyarrow as pa
    from deltalake import write_deltalake

    columns = {
        "id": pa.array([1, 2]),
        "at": pa.array([datetime(2013, 6, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "raw": pa.array([b"\xff", None]),
        "price": pa.array([Decimal("1.50"), None]),
        "parts": pa.array([[1], []]),
    }
    write_deltalake(str(path), pa.table({name: columns[name] for name in names}))
    return str(path)


@pytest.mark.slow
def test_equal_rows_are_equal_in_any_order_of_columns(tmp_path: Path):
    names = ["id", "at", "raw", "price", "parts"]
    one = table(tmp_path / "one", names)
    two = table(tmp_path / "two", names[::-1])
    [rows] = table_rows(SINK, one, ["id"])
    assert [rows] == list(table_rows(SINK, two, ["id"]))
    assert rows[0] == (
        b'{"id": 1}',
        b'{"at": "2013-06-01T00:00:00+00:00", "id": 1, "parts": [1], "price": "1.50", "raw": "ff"}',
    )


@pytest.mark.slow
def test_a_table_without_a_key_without_the_column_or_that_is_not_there_is_refused(tmp_path: Path):
    path = table(tmp_path / "one", ["id"])
    for key, where, message in (
        ([], path, "say with --key"),
        (["no"], path, "has no column no: it has id"),
        (["id"], str(tmp_path / "none"), "there is no table here"),
    ):
        with pytest.raises(ReplayError, match=message):
            list(table_rows(SINK, where, key))


@pytest.mark.slow
def test_times_of_any_year_are_compared(tmp_path: Path):
    import pyarrow as pa

    from ottla.pipelines.replay.sides import _values

    us = [0, 253_402_300_800_000_000, 9_000_000_000_000_000_001, -62_135_596_800_000_001, None]
    zoned, plain = pa.array(us, pa.timestamp("us", "UTC")), pa.array(us, pa.timestamp("us"))
    days = pa.array([0, 2_932_897, -719_163, 10_000_000, None], pa.date32())
    nested = pa.array(
        [[{"at": 253_402_300_800_000_000}], [], None, [None], [{"at": None}]],
        pa.list_(pa.struct([("at", pa.timestamp("us"))])),
    )
    texts = [
        "1970-01-01T00:00:00",
        "10000-01-01T00:00:00",
        "287168-08-24T16:00:00.000001",
        "0000-12-31T23:59:59.999999",
    ]
    assert _values(plain) == [*texts, None]
    assert _values(zoned) == [*(f"{text}+00:00" for text in texts), None]
    assert _values(days) == ["1970-01-01", "10000-01-01", "0000-12-31", "29349-01-26", None]
    assert _values(nested) == [[{"at": "10000-01-01T00:00:00"}], [], None, [None], [{"at": None}]]
    # As Python says it, where it can.
    for text, value in zip(_values(days)[:1] + _values(zoned)[:1], [days[0], zoned[0]], strict=True):
        assert text == value.as_py().isoformat()


def test_columns_of_a_json_value_may_be_the_key_of_a_record():
    record = ConsumerRecord("t", 0, 7, 0, b"k", b'{"b": 1, "a": null}', [])
    assert _row(record, []) == (b"k", b'{"b": 1, "a": null}')
    assert _row(record, ["a"]) == (b'{"a": null}', b'{"a": null, "b": 1}')
    assert _row(record._replace(value=b'{"b": 1}'), ["a"]) == _row(record, ["a"])
    for value, said in ((None, "a tombstone has no value"), (b"", "not a JSON object"), (b"[1]", "not a JSON object")):
        with pytest.raises(ReplayError, match=f"t-0@7: .*{said}"):
            _row(record._replace(value=value), ["a"])
