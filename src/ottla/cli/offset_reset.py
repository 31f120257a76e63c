"""Where a group is moved to: the decision for each partition, without a broker.

```
 start                       committed            end
   |-----------------------------|------------------|
 --to-earliest       --shift-by -3 <--  --> +2   --to-latest
```

What lies outside of the log is put to the nearer end of it, as Kafka's tool does.
"""

import re
from datetime import UTC, datetime
from enum import Enum, auto

import click
from msgspec import Struct


class ResetTo(Enum):
    """What the number of an `OffsetReset` means."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIMESTAMP = auto()
    """The first record at or after it, ms since 1970; the end when there is none."""
    SHIFT = auto()
    """So many offsets after the committed one, before it when negative."""


class OffsetReset(Struct, frozen=True):
    """Where to, for every partition alike."""

    to: ResetTo
    number: int = 0


class PartitionNow(Struct, frozen=True):
    """What decides in one partition.

    `at_time` is the first offset at or after the timestamp asked for, -1 when no record is that young.
    """

    start: int
    end: int
    committed: int | None = None
    at_time: int = -1


class NoCommittedOffsetError(Exception):
    """There is nothing to shift."""


class NewOffset(Struct, frozen=True):
    """The decision; `note` says why it is not what was asked for, None when it is."""

    offset: int
    note: str | None = None


def new_offset(reset: OffsetReset, now: PartitionNow) -> NewOffset:
    """Where the group goes on in one partition. Raises NoCommittedOffsetError.

    >>> new_offset(OffsetReset(ResetTo.SHIFT, -3), PartitionNow(start=0, end=10, committed=7)).offset
    4
    """
    match reset.to:
        case ResetTo.EARLIEST:
            return NewOffset(now.start)
        case ResetTo.LATEST:
            return NewOffset(now.end)
        case ResetTo.OFFSET:
            return _within(reset.number, now)
        case ResetTo.SHIFT:
            if now.committed is None:
                raise NoCommittedOffsetError
            return _within(now.committed + reset.number, now)
        case ResetTo.TIMESTAMP:
            if now.at_time < 0:
                return NewOffset(now.end, f"no record is that young: its end, {now.end}, is taken")
            return _within(now.at_time, now)


def _within(offset: int, now: PartitionNow) -> NewOffset:
    if offset < now.start:
        return NewOffset(now.start, f"offset {offset} is before its start: {now.start} is taken")
    if offset > now.end:
        return NewOffset(now.end, f"offset {offset} is after its end: {now.end} is taken")
    return NewOffset(offset)


_ISO_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,3}))?S)?)?", re.ASCII
)
_SHORT_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


def parse_duration_ms(text: str) -> int:
    """ISO 8601 as Kafka's tool takes it, `P1DT2H30M`, or short, `15m`. Raises click.BadParameter.

    >>> parse_duration_ms("PT1H30M"), parse_duration_ms("15m")
    (5400000, 900000)
    """
    short = _SHORT_DURATION.fullmatch(text)
    if short is not None:
        return int(short[1]) * _UNIT_MS[short[2]]
    iso = _ISO_DURATION.fullmatch(text.upper())
    if iso is None:
        raise click.BadParameter(f"{text!r} is not a duration: write 15m (s, m, h, d) or P1DT2H30M")
    whole = sum(int(number or 0) * unit for number, unit in zip(iso.groups()[:4], _UNIT_MS.values(), strict=True))
    return whole + int((iso[5] or "").ljust(3, "0"))


def parse_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 date or time; UTC unless it says otherwise, as with Kafka's tool.

    Raises click.BadParameter.
    """
    try:
        found = datetime.fromisoformat(text)
        milliseconds = round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise click.BadParameter(f"{text!r} is not a time since 1970: write 2026-11-20T08:00:00Z")
    return milliseconds
