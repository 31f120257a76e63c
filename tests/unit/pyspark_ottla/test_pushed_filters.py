"""Filters make a batch read less, and never something else."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from pyspark_ottla import DefaultSource
from pyspark_ottla.batch_reader import OttlaFilteringReader
from pyspark_ottla.read_options import ReadOptions
from tests.unit.pyspark_ottla.model_log import record

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "pushdown": "true"}


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def read(filters: list[Filter]) -> tuple[list[tuple[int, int]], list[Filter]]:
    reader = OttlaFilteringReader(ReadOptions.of(BASE, streaming=False))
    left = list(reader.pushFilters(filters))
    rows = [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]
    return sorted((row["partition"], row["offset"]) for row in rows), left


@pytest.mark.parametrize(
    ("filters", "partitions", "offsets"),
    [
        ([EqualTo(("partition",), 1)], [1], range(20)),
        ([In(("partition",), (0, 2, 7))], [0, 2], range(20)),
        ([EqualTo(("topic",), "t")], [0, 1, 2], range(20)),
        ([EqualTo(("topic",), "other")], [], range(0)),
        ([EqualTo(("offset",), 7)], [0, 1, 2], range(7, 8)),
        ([GreaterThan(("offset",), 7), LessThanOrEqual(("offset",), 9)], [0, 1, 2], range(8, 10)),
        ([GreaterThanOrEqual(("offset",), 7), LessThan(("offset",), 9)], [0, 1, 2], range(7, 9)),
        ([GreaterThan(("offset",), 9), LessThan(("offset",), 5)], [], range(0)),
        ([IsNotNull(("offset",)), EqualTo(("partition",), 0)], [0], range(20)),
    ],
)
def test_filters_on_where_a_record_is_are_done_for_good(log, filters, partitions, offsets):
    log.create("t", 3, records=20)
    assert read(filters) == ([(partition, offset) for partition in partitions for offset in offsets], [])


def test_several_offsets_are_read_with_what_lies_between_and_left_to_spark(log):
    log.create("t", records=20)
    wanted: list[Filter] = [In(("offset",), (5, 8))]
    assert read(wanted) == ([(0, 5), (0, 6), (0, 7), (0, 8)], wanted)


@pytest.mark.parametrize("since", [GreaterThan(("timestamp",), at(6.2)), EqualTo(("timestamp",), at(6.2))])
def test_a_time_says_from_where_to_read_and_spark_looks_at_what_comes(log, since):
    [partition, _] = log.create("t", 2, records=10)
    partition.append(record(2))
    log.partitions["t"][1].batches.clear()
    assert read([since]) == ([*((0, offset) for offset in range(7, 11))], [since])


def test_a_time_after_all_records_leaves_nothing_to_read(log):
    log.create("t", records=10)
    assert read([GreaterThanOrEqual(("timestamp",), at(100))])[0] == []


def test_what_is_not_understood_is_left_to_spark(log):
    log.create("t", records=3)
    filters: list[Any] = [
        LessThan(("timestamp",), at(1)),
        Not(EqualTo(("partition",), 0)),
        StringContains(("topic",), "x"),
        EqualTo(("key",), b"k"),
        EqualTo(("data", "offset"), 1),
        EqualTo(("offset",), None),
    ]
    assert read(filters) == ([(0, 0), (0, 1), (0, 2)], filters)


def test_only_a_read_that_asked_for_it_takes_filters():
    source = DefaultSource({key: value for key, value in BASE.items() if key != "pushdown"})
    assert type(source.reader(source.schema())).pushFilters is DataSourceReader.pushFilters
