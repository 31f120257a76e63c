"""Event times as Spark is given them, and back."""

from datetime import UTC, datetime, timedelta

import pytest

from ottla.pipelines.spec.event_time import AHEAD_YEARS_MAX, ANY_YEAR, IN_PYTHON, shift_ms, watermark_of


@pytest.mark.parametrize("years", [ANY_YEAR, IN_PYTHON])
def test_the_shift_changes_the_year_alone(years):
    # Python does not know all such years: a part of it has to do.
    parts = years // 400
    part = timedelta(milliseconds=shift_ms(years) // parts)
    assert datetime(2024, 2, 29, 10, tzinfo=UTC) + part == datetime(2424, 2, 29, 10, tzinfo=UTC)


def test_times_of_this_millennium_are_times_of_python_beside_a_state():
    latest = datetime(2999 + AHEAD_YEARS_MAX, 12, 31, tzinfo=UTC)
    assert (latest + timedelta(milliseconds=shift_ms(IN_PYTHON))).year == 7499


@pytest.mark.parametrize(
    ("said", "years", "shown"),
    [
        (None, ANY_YEAR, None),
        ("1970-01-01T00:00:00.000Z", ANY_YEAR, None),
        ("+13970-01-01T00:00:00.000Z", ANY_YEAR, "1970-01-01T00:00:00.000Z"),
        ("+13959-06-01T10:00:00.000Z", ANY_YEAR, "1959-06-01T10:00:00.000Z"),
        ("+12001-01-01T00:00:00.000Z", ANY_YEAR, "0001-01-01T00:00:00.000Z"),
        ("+11998-12-31T00:00:00.000Z", ANY_YEAR, "0000-12-31T00:00:00.000Z"),
        ("+21999-12-31T23:59:59.999Z", ANY_YEAR, "9999-12-31T23:59:59.999Z"),
        ("2013-06-01T10:00:00.000Z", ANY_YEAR, "2013-06-01T10:00:00.000Z"),
        ("5959-06-01T10:00:00.000Z", IN_PYTHON, "1959-06-01T10:00:00.000Z"),
        ("2013-06-01T10:00:00.000Z", IN_PYTHON, "2013-06-01T10:00:00.000Z"),
        ("2013-06-01T10:00:00.000Z", 0, "2013-06-01T10:00:00.000Z"),
        ("1970-01-01T00:00:00.000Z", 0, None),
    ],
)
def test_a_watermark_is_shown_as_a_time_of_rows(said, years, shown):
    assert watermark_of(said, years) == shown
