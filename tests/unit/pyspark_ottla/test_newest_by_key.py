"""A compacted topic as a table: read by one task."""

import pickle
import random

import pytest

from pyspark_ottla import DefaultSource, newest_by_key
from pyspark_ottla.record_columns import arrow_schema

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}


def table(**given: str) -> dict[bytes, tuple[bytes, int, int]]:
    """Value, partition and offset by key."""
    read = pickle.loads(pickle.dumps(newest_by_key._Read({**BASE, **given})))
    rows = [row for batch in read(iter([])) for row in batch.to_pylist()]
    found = {row["key"]: (row["value"], row["partition"], row["offset"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_of_each_key_the_newest_record_counts_and_a_tombstone_takes_it_out(log):
    (partition,) = log.create("t")
    partition.append((9, b"a", b"1", []), (8, b"b", b"2", []), (7, b"a", b"3", []), (6, None, b"no key", []))
    partition.append((5, b"b", None, []), (4, b"c", b"4", []))
    assert table() == {b"a": (b"3", 0, 2), b"c": (b"4", 0, 5)}


def test_of_several_partitions_the_record_that_is_newest_in_time_counts(log):
    first, second = log.create("t", 2)
    first.append((10, b"moved", b"old", []), (10, b"gone", b"old", []), (30, b"stays", b"new", []))
    second.append((20, b"moved", b"new", []), (20, b"gone", None, []), (20, b"stays", b"old", []))
    assert table() == {b"moved": (b"new", 1, 0), b"stays": (b"new", 0, 2)}


def test_a_topic_without_records_is_an_empty_table(log):
    log.create("t", 2)
    assert table() == {}


@pytest.mark.parametrize("held", [1, 7, 1_000])
def test_it_is_the_same_however_many_rows_are_held(log, monkeypatch, held):
    monkeypatch.setattr(newest_by_key, "SUPERSEDED_MAX", held)
    chance, expected = random.Random(5), {}
    partitions = log.create("t", 3)
    for at in range(400):
        key = b"%d" % chance.randrange(60)
        value = None if chance.random() < 0.3 else b"%d" % at
        number = chance.randrange(3)
        expected[key] = (value, number, partitions[number].end)
        partitions[number].append((at, key, value, []))
    assert table(maxBatchRows="5") == {key: found for key, found in expected.items() if found[0] is not None}


def test_one_that_is_read_by_several_tasks_is_read_in_order(log):
    log.create("t", 2)[1].append(*((at, b"k%d" % (at % 7), b"%d" % at, []) for at in range(30_000)))
    assert table(minPartitions="3") == {b"k%d" % (at % 7): (b"%d" % at, 1, at) for at in range(29_993, 30_000)}


def test_the_rows_are_of_the_columns_that_spark_is_told_of(log):
    log.create("t")[0].append((1, b"a", b"1", [("h", b"x")]))
    for headers in ("true", "false"):
        options = {**BASE, "includeHeaders": headers}
        (batch,) = newest_by_key._Read(options)(iter([]))
        assert batch.schema == arrow_schema(include_headers=headers == "true")
        assert DefaultSource(options).schema().names == batch.schema.names
