"""How the rows of a test are compared with those of Spark."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from ottla.pipelines.testing import differences, same


@pytest.mark.parametrize(
    ("expected", "actual", "alike"),
    [
        ("2013-01-01T10:00:00Z", datetime(2013, 1, 1, 10, tzinfo=UTC), True),
        ("2013-01-01 10:00:00", datetime(2013, 1, 1, 10, tzinfo=UTC), True),
        ("2013-01-01T11:00:00+01:00", datetime(2013, 1, 1, 10, tzinfo=UTC), True),
        ("2013-01-01T10:00:01Z", datetime(2013, 1, 1, 10, tzinfo=UTC), False),
        ("2013-01-01", date(2013, 1, 1), True),
        (1, 1.0, True),
        (0.3, 0.1 + 0.2, True),
        (1, True, False),
        (None, None, True),
        (None, 0, False),
        ("1.50", Decimal("1.5"), True),
        ("a", bytearray(b"a"), True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ([1, 2], [1, 2], True),
        ([1], [1, 2], False),
    ],
)
def test_values_of_a_file_and_of_spark(expected, actual, alike):
    assert same(expected, actual) is alike


def test_rows_are_compared_in_any_order_by_the_columns_that_are_named():
    assert differences("s", [{"a": 1}, {"a": 2}], [{"a": 2, "b": 0}, {"a": 1, "b": 0}]) == []


def test_a_row_counts_as_often_as_it_is_there():
    assert differences("s", [{"a": 1}], [{"a": 1}, {"a": 1}]) == ["s: 0 rows missing, 1 too many", "  + a=1"]


def test_what_is_missing_and_too_many_is_shown():
    assert differences("s", [{"a": 1, "b": None}], [{"a": 2, "b": "x", "c": 5}]) == [
        "s: 1 row missing, 1 too many",
        "  - a=1 b=null",
        "  + a=2 b=x",
    ]
