"""Times of cron expressions, beside a model that looks at every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.queues.cron import BadCronError, Cron, cron_of
from ottla.queues.delay import CRON, SCHEDULED, TIME_ZONE, BadDelayError, next_of_schedule

MINUTE_MS = 60_000
minutes = st.sampled_from(["*", "*/7", "0", "30", "15,45", "59", "10-20/5"])
hours = st.sampled_from(["*", "2", "3", "8-18/2", "0,23", "*/5"])
days = st.sampled_from(["*", "*", "1", "28-31", "*/10"])
weekdays = st.sampled_from(["*", "*", "mon-fri", "0", "7", "sat,sun", "2-4/2"])
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def meets(cron: Cron, local: datetime) -> bool:
    """Whether a local time is one of the expression's, by its words."""
    by_day, by_weekday = local.day in cron.days, local.isoweekday() % 7 in cron.weekdays
    date = (by_day or by_weekday) if cron.either_day else (by_day and by_weekday)
    return date and local.month in cron.months and local.hour in cron.hours and local.minute in cron.minutes


@settings(max_examples=60)
@given(minutes, hours, days, weekdays, zones, st.sampled_from(["2026-03-28", "2026-10-24", "2026-03-07", "2027-02-27"]))
def test_the_next_time_is_the_first_minute_that_meets_the_expression(
    minute: str, hour: str, day: str, weekday: str, zone: str, date: str
) -> None:
    cron = cron_of(f"{minute} {hour} {day} * {weekday}", zone)
    after = datetime.fromisoformat(f"{date}T22:13:20+00:00")
    found = datetime.fromtimestamp(cron.next_ms(round(after.timestamp() * 1_000)) / 1_000, UTC)
    assert found > after
    assert meets(cron, found.astimezone(cron.zone))
    at = after.replace(second=0) + timedelta(minutes=1)
    for _ in range(min(round((found - at) / timedelta(minutes=1)), 4_000)):
        local = at.astimezone(cron.zone)
        assert local.fold or not meets(cron, local), f"{local} comes before {found}"
        at += timedelta(minutes=1)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+00:00", "2026-03-30T00:30:00+00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+00:00", "2026-10-25T00:30:00+00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"),
        ("0 0 29 feb *", "UTC", "2026-03-01T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        ("0 8 13 * fri", "UTC", "2026-11-01T00:00:00+00:00", "2026-11-06T08:00:00+00:00"),
    ],
)
def test_clock_changes_leap_days_and_either_day(expression: str, zone: str, after: str, expected: str) -> None:
    assert cron_of(expression, zone).next_ms(ms(after)) == ms(expected)


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "x * * * *", "* * * foo *"]
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(BadCronError):
        cron_of(expression)


def test_a_date_that_never_comes_is_refused() -> None:
    with pytest.raises(BadCronError, match="no date"):
        cron_of("0 0 31 feb *").next_ms(0)


@pytest.mark.parametrize("zone", ["Berlin", "../etc/passwd", "", "Europe/Nowhere"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadCronError, match="time zone"):
        cron_of("* * * * *", zone)


def test_a_periodic_record_waits_with_its_headers_and_needs_a_key() -> None:
    given_headers = [("kept", b"1"), (CRON, b"0 8 * * *"), (TIME_ZONE, b"Asia/Kolkata")]
    found = next_of_schedule(b"k", given_headers, ms("2026-01-01T00:00:00+00:00"), 7)
    assert found is not None
    assert found[0] == ms("2026-01-01T08:00:00+05:30")
    assert dict(found[1]) == {
        "kept": b"1",
        CRON: b"0 8 * * *",
        TIME_ZONE: b"Asia/Kolkata",
        SCHEDULED: b"7",
        "ottla-deliver-at": str(found[0]).encode(),
    }
    again = next_of_schedule(b"k", found[1], found[0], 7)
    assert again is not None
    assert again[0] == found[0] + 24 * 60 * MINUTE_MS
    with pytest.raises(BadDelayError, match="key"):
        next_of_schedule(None, given_headers, 0, 7)
    with pytest.raises(BadDelayError, match="five fields"):
        next_of_schedule(b"k", [(CRON, None)], 0, 7)
    assert next_of_schedule(b"k", [("kept", b"1")], 0, 7) is None


class CountedZone(tzinfo):
    """UTC, which counts how often it is asked."""

    asked = 0

    def utcoffset(self, when: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "counted"

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)


def test_the_next_time_of_a_frequent_schedule_takes_few_looks_late_in_the_day() -> None:
    zone = CountedZone()
    late = datetime(2026, 11, 28, 23, 55, 30, tzinfo=UTC)
    found = cron_of("* * * * *")._replace(zone=zone).next_ms(round(late.timestamp() * 1_000))
    assert found == round(datetime(2026, 11, 28, 23, 56, tzinfo=UTC).timestamp() * 1_000)
    assert zone.asked < 10


def test_an_expression_is_read_once_for_many_schedules() -> None:
    assert cron_of("7 8 * * *", "Europe/Berlin") is cron_of("7 8 * * *", "Europe/Berlin")
