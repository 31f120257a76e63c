"""The rows of a table are compared by columns, whatever their order and types."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from ottla.client.consumer_record import ConsumerRecord
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


def test_columns_of_a_json_value_may_be_the_key_of_a_record():
    record = ConsumerRecord("t", 0, 7, 0, b"k", b'{"b": 1, "a": null}', [])
    assert _row(record, []) == (b"k", b'{"b": 1, "a": null}')
    assert _row(record, ["a"]) == (b'{"a": null}', b'{"a": null, "b": 1}')
    assert _row(record._replace(value=b'{"b": 1}'), ["a"]) == _row(record, ["a"])
    for value, said in ((None, "a tombstone has no value"), (b"", "not a JSON object"), (b"[1]", "not a JSON object")):
        with pytest.raises(ReplayError, match=f"t-0@7: .*{said}"):
            _row(record._replace(value=value), ["a"])
