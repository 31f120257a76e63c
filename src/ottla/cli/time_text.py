"""Times of records, as commands show them."""

from datetime import UTC, datetime


def time_text(timestamp_ms: int, timespec: str = "milliseconds") -> str:
    """A time in UTC as ISO 8601; a number that is no time of a calendar stays a number.

    `timestamp_ms` counts milliseconds since 1970; `timespec` is that of `datetime.isoformat`.
    """
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
