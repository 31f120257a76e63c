"""Times of a cron expression in a time zone (POSIX crontab, with steps and names).

    minute 0-59 | hour 0-23 | day 1-31 | month 1-12 or jan-dec | weekday 0-7 or sun-sat, 0 and 7 are Sunday

A field is `*` or a list of numbers and ranges, each with an optional step: `*/15`, `8-18/2`, `mon-fri`. Where both day
and weekday are given, a date that meets one of them counts, as in crontab. A local time that a clock change leaves out
does not occur; one that comes twice occurs the first time.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EXPRESSION_MAX: Final = 256
_SHOWN_CHARS: Final = 60
READ_MAX: Final = 256
"""So many expressions that were read are kept, in some kilobytes each."""
YEARS_MAX: Final = 9
"""How far the next time may be: 29 February is at most eight years away."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NEVER: Final = f"no date in the next {YEARS_MAX} years meets it"
_NONE_PASSED: Final = (-1, -1)
_PART: Final = re.compile(r"(?:(\*)|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/(\d{1,3}))?", re.ASCII)


class BadCronError(Exception):
    """An expression or a time zone that is none; the text says what is wrong."""


class Cron(NamedTuple):
    """An expression that was read."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether day and weekday are both given, so that one of them is enough."""
    zone: tzinfo

    def next_ms(self, after_ms: int) -> int:
        """The first time after a time, ms since 1970. Raises BadCronError where there is none in the next years."""
        if min(self.days) > max(_MONTH_DAYS[month - 1] for month in self.months) and not self.either_day:
            raise BadCronError(_NEVER)
        after = datetime.fromtimestamp(after_ms / 1_000, UTC)
        read = after.astimezone(self.zone)
        # What the clock shows has occurred, for the first time if there are two.
        date, passed = read.date(), (read.hour, read.minute)
        for _ in range(YEARS_MAX * 366):
            if self._has_date(date.month, date.day, date.isoweekday() % 7):
                for hour in sorted(self.hours):
                    if hour < passed[0]:
                        continue
                    for minute in sorted(self.minutes):
                        if (hour, minute) <= passed:
                            continue
                        local = datetime(date.year, date.month, date.day, hour, minute, tzinfo=self.zone)
                        moment = local.astimezone(UTC)
                        exists = moment.astimezone(self.zone).replace(fold=0) == local
                        if exists and moment > after:
                            return round(moment.timestamp() * 1_000)
            date += timedelta(days=1)
            passed = _NONE_PASSED
        raise BadCronError(_NEVER)

    def _has_date(self, month: int, day: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        if self.either_day:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


@lru_cache(maxsize=READ_MAX)
def cron_of(expression: str, zone: str = "UTC") -> Cron:
    """Read an expression and the name of a time zone such as `Europe/Berlin`. Raises BadCronError."""
    fields = expression.lower().split()
    if len(expression) > EXPRESSION_MAX or len(fields) != 5:
        raise BadCronError(
            f"{expression[:_SHOWN_CHARS]!r} is no cron expression, which has five fields in at most {EXPRESSION_MAX} "
            "characters, such as '0 8 * * mon-fri'"
        )
    minute, hour, day, month, weekday = fields
    weekdays = _numbers("weekday", weekday, 0, 7, _DAYS, 0)
    return Cron(
        _numbers("minute", minute, 0, 59),
        _numbers("hour", hour, 0, 23),
        _numbers("day", day, 1, 31),
        _numbers("month", month, 1, 12, _MONTHS, 1),
        frozenset(number % 7 for number in weekdays),
        not day.startswith("*") and not weekday.startswith("*"),
        _zone(zone),
    )


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadCronError(f"there is no time zone {name[:80]!r}: take one such as Europe/Berlin, or UTC") from None


def _numbers(field: str, text: str, low: int, high: int, names: tuple[str, ...] = (), first: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        step = 0 if match is None else int(match[4] or 1)
        if match is None or not step:
            raise BadCronError(f"{part!r} is no {field} of a cron expression")
        if match[1]:
            start, end = low, high
        else:
            start = _number(field, match[2], names, first)
            end = _number(field, match[3], names, first) if match[3] else high if match[4] else start
        if not low <= start <= end <= high:
            raise BadCronError(f"{part!r} is no {field}: those are from {low} to {high}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _number(field: str, text: str, names: tuple[str, ...], first: int) -> int:
    if text in names:
        return names.index(text) + first
    if not text.isdigit() or len(text) > 2:
        raise BadCronError(f"{text!r} is no {field} of a cron expression")
    return int(text)
