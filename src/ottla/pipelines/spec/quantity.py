"""Parses durations, sizes and times of pipeline files."""

import re
from datetime import UTC, datetime

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")

_MILLISECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_BYTES = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}

_MOST = 2**62
"""What does not fit into a long of Spark with room to add is a typing error."""


def parse_duration(text: str) -> int:
    """A duration in milliseconds; several parts add up. Raises ValueError, which says what to write.

    >>> parse_duration("1 hour 30 minutes"), parse_duration("500ms")
    (5400000, 500)
    """
    return _sum(text, _MILLISECONDS, "a duration", "write it like 30 seconds, 6 hours or 1 day")


def parse_size(text: str) -> int:
    """A size in bytes; units are powers of 1,024. Raises ValueError, which says what to write.

    >>> parse_size("128 MB")
    134217728
    """
    return _sum(text, _BYTES, "a size", "write it like 64 KB, 128 MB or 1 GB")


def _sum(text: str, units: dict[str, int], what: str, hint: str) -> int:
    rest = _AMOUNT.sub("", text).strip()
    parts = _AMOUNT.findall(text)
    if rest or not parts:
        raise ValueError(f"{text!r} is not {what}", hint)
    total = 0.0
    for amount, unit in parts:
        if unit.lower() in ("month", "months", "year", "years"):
            raise ValueError(f"a {unit.lower().rstrip('s')} has no fixed length", "write it in days")
        if unit.lower() not in units:
            raise ValueError(f"{text!r} is not {what}: unknown unit {unit}", hint)
        total += float(amount) * units[unit.lower()]
    if total > _MOST:
        raise ValueError(f"{text!r} is too large", hint)
    return round(total)


def parse_moment(text: str) -> datetime:
    """A time in RFC 3339, in UTC without an offset. Raises ValueError, which says what to write."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time", "write it like 2013-06-01T00:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
