"""Records that are delivered later: what their headers say, and how far a delay topic is.

A record in a delay topic is due at its header `ottla-deliver-at`, else `ottla-delay` after its timestamp, else
`ottla.deliver.delay.ms` after it. A record with `ottla-cancel` cancels what waits with its key and lies before it in
the partition.

A record with `ottla-cron` is periodic. It is no delivery itself: it is replaced by a record that waits for the next
time of its schedule, which is delivered then and replaced by the one after. Another one with its key takes its place.

Records are moved in the order of (due time, offset). Progress is three numbers, so that it needs no list of what was
moved: of the records below `end`, those up to (`due_ms`, `offset`) in this order have been moved.

    offset   10      11      12      13 | 14          progress (due 500, offset 12, end 14):
    due     300     900     500     700 | 400         10 and 12 are moved, 11 and 13 wait; 14 has not been looked at
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

DELIVER_AT: Final = "ottla-deliver-at"
DELAY: Final = "ottla-delay"
CANCEL: Final = "ottla-cancel"
CRON: Final = "ottla-cron"
TIME_ZONE: Final = "ottla-time-zone"
SCHEDULED: Final = "ottla-scheduled"
"""On the record that waits for the next time of a schedule; it was written by the broker."""

_WHEN: Final = frozenset({DELIVER_AT, DELAY, CRON, TIME_ZONE, SCHEDULED})

DELAY_MAX_MS: Final = 3_653 * 86_400_000
"""Ten years: a record that is due later after its timestamp cannot be delivered."""

BEFORE_ALL: Final = -(1 << 63)
_LAST: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 18

Headers = Sequence[tuple[str, bytes | None]]


class BadDelayError(Exception):
    """A record of a delay topic says no time at which it could be delivered."""


class Progress(NamedTuple):
    """How far a partition is; `low` is the first offset that may wait."""

    low: int = 0
    due_ms: int = BEFORE_ALL
    offset: int = -1
    end: int = 0

    @property
    def metadata(self) -> str:
        """All but `low`, which is the committed offset, as it is committed with it."""
        return f"{self.due_ms}:{self.offset}:{self.end}"

    def has_moved(self, due_ms: int, offset: int) -> bool:
        """Whether a record has been moved, or was cancelled by then."""
        return offset < self.end and (due_ms, offset) <= (self.due_ms, self.offset)

    def cut_at(self, log_end: int) -> "Progress":
        """The progress in a log that ends there now: what is appended anew has been neither looked at nor moved."""
        return self._replace(low=min(self.low, log_end), end=min(self.end, log_end))


def progress_of(low: int, metadata: str) -> Progress:
    """The progress that was committed; of an offset that somebody else committed, nothing from there on is moved."""
    try:
        due_ms, offset, end = map(int, metadata.split(":"))
    except ValueError:
        return Progress(low, end=low)
    if not all(BEFORE_ALL <= each <= _LAST for each in (due_ms, offset, end)):
        return Progress(low, end=low)
    return Progress(low, due_ms, offset, end)


def due_ms(timestamp_ms: int, headers: Headers, default_delay_ms: int) -> int:
    """When a record is due. Raises BadDelayError."""
    named = dict(headers)
    if DELIVER_AT in named:
        due = _milliseconds(DELIVER_AT, named[DELIVER_AT])
    elif DELAY in named:
        due = timestamp_ms + _milliseconds(DELAY, named[DELAY])
    else:
        due = timestamp_ms + default_delay_ms
    if due > timestamp_ms + DELAY_MAX_MS:
        raise BadDelayError(f"it is due at {due}, more than ten years after its timestamp {timestamp_ms}")
    return due


def is_cancel(key: bytes | None, headers: Headers) -> bool:
    """Whether a record cancels others, those with its key. Raises BadDelayError for one without a key."""
    cancels = any(name == CANCEL for name, _ in headers)
    if cancels and key is None:
        raise BadDelayError("a record that cancels others needs a key: it cancels those with the same one")
    return cancels


def delivered_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers without those that said when, so that the next delay topic of a chain does not read them."""
    return [(name, value) for name, value in headers if name not in _WHEN]


def next_of_schedule(key: bytes | None, headers: Headers, after_ms: int) -> tuple[int, Headers] | None:
    """The next time of a periodic record, and the headers with which it waits for it; None of one that is not periodic.

    Raises BadDelayError.
    """
    named = dict(headers)
    expression = named.get(CRON)
    if CRON not in named:
        return None
    from ottla.queues.cron import BadCronError, cron_of  # time zones, which most brokers never need

    if key is None:
        raise BadDelayError("a periodic record needs a key, by which it is changed and cancelled")
    zone = named.get(TIME_ZONE) or b"UTC"
    try:
        next_ms = cron_of((expression or b"").decode("utf-8", "replace"), zone.decode("utf-8", "replace")).next_ms(
            after_ms
        )
    except BadCronError as error:
        raise BadDelayError(f"header {CRON}: {error}") from None
    schedule = [(CRON, expression), (TIME_ZONE, zone), (SCHEDULED, b""), (DELIVER_AT, str(next_ms).encode())]
    return next_ms, [*delivered_headers(headers), *schedule]


def _milliseconds(name: str, value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > _DIGITS_MAX:
        shown = "null" if value is None else repr(value[:40].decode("utf-8", "replace"))
        raise BadDelayError(f"header {name} must be milliseconds in at most {_DIGITS_MAX} decimal digits, not {shown}")
    return int(value)
