"""Where to begin and where to stop reading: `beginning`, `end`, `stored`, `17`, `-5`, `@2026-11-20T08:00:00Z`."""

import re
from datetime import datetime
from enum import Enum, auto

from msgspec import Struct

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.runtime.clock import Clock


class StartKind(Enum):
    """What the number of a `StartPosition` means."""

    BEGINNING = auto()
    END = auto()
    STORED = auto()
    """Where the group has committed."""
    OFFSET = auto()
    LAST = auto()
    """That many offsets before the end."""
    TIMESTAMP = auto()
    """The first record at or after it, ms since 1970."""


class StartPosition(Struct, frozen=True):
    """A place in each partition that is read."""

    kind: StartKind
    number: int = 0


GROUP_STARTS = frozenset({StartKind.BEGINNING, StartKind.END, StartKind.STORED})
"""Where a group may begin in a partition where it has committed nothing."""

_WORDS = {
    "beginning": StartKind.BEGINNING,
    "earliest": StartKind.BEGINNING,
    "start": StartKind.BEGINNING,
    "end": StartKind.END,
    "latest": StartKind.END,
    "stored": StartKind.STORED,
}
_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_INT64_MAX = (1 << 63) - 1
_AGO = re.compile(r"-(\d{1,9})(s|m|h|d)", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_position(text: str, clock: Clock) -> StartPosition:
    """Read a position. Raises CommandError, a usage error.

    `@` is followed by ms since 1970, an ISO 8601 date or time, or how long ago: `@-15m`. kcat's `s@` is taken as well.
    """
    word = _WORDS.get(text.lower())
    if word is not None:
        return StartPosition(word)
    if text.startswith(("@", "s@", "e@")):
        return StartPosition(StartKind.TIMESTAMP, parse_timestamp(text.partition("@")[2], clock))
    if _NUMBER.fullmatch(text) and abs(number := int(text)) <= _INT64_MAX:
        return StartPosition(StartKind.LAST, -number) if text[0] == "-" else StartPosition(StartKind.OFFSET, number)
    raise CommandError(
        f"{text!r} is not a position: write beginning, end, stored, an offset, -N for the last N, or @TIME",
        ExitCode.USAGE,
    )


def parse_timestamp(text: str, clock: Clock) -> int:
    """Milliseconds since 1970. A time without an offset from UTC is local. Raises CommandError, a usage error."""
    if _NUMBER.fullmatch(text) and 0 <= (milliseconds := int(text)) <= _INT64_MAX:
        return milliseconds
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return clock.now_ms() - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{text!r} is not a time: write ms since 1970, 2026-11-20T08:00:00Z, or -15m for 15 minutes ago",
            ExitCode.USAGE,
        ) from None
