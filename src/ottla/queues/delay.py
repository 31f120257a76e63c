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
"""On the record that waits for the next time of a schedule, and on what cancels one before; the broker wrote it. Its
value is the offset of the record that began the schedule: its place, where it is about being cancelled.

    offset   100 begins a schedule    200 cancels it    300 was written in its place by a broker that had not read 200
"""

_WHEN: Final = frozenset({DELIVER_AT, DELAY, CRON, TIME_ZONE, SCHEDULED})

DELAY_MAX_MS: Final = 3_653 * 86_400_000
"""Ten years: a record that is due later after its timestamp cannot be delivered."""

BEFORE_ALL: Final = -(1 << 63)
_LAST: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 18

Headers = Sequence[tuple[str, bytes | None]]


class BadDelayError(Exception):
    """A record of a delay topic says no time at which it could be delivered."""


DELAYS_MAX: Final = 32
"""So many changes of the default delay may concern records that wait."""


class Progress(NamedTuple):
    """How far a partition is; `low` is the first offset that may wait."""

    low: int = 0
    due_ms: int = BEFORE_ALL
    offset: int = -1
    end: int = 0
    delays: tuple[tuple[int, int], ...] = ()
    """The default delay of records, each from an offset on: what is due when must not change once it was looked at."""

    @property
    def metadata(self) -> str:
        """All but `low`, which is the committed offset, as it is committed with it."""
        delays = "".join(f":{start},{delay_ms}" for start, delay_ms in self.delays)
        return f"{self.due_ms}:{self.offset}:{self.end}{delays}"

    def with_default_delay(self, delay_ms: int) -> "Progress":
        """The progress with a default delay for the records that have not been looked at. It stays as it is where too
        many changes concern records that wait.
        """
        if not self.delays:
            return self._replace(delays=((0, delay_ms),))
        delays = [
            each
            for each, after in zip(self.delays, (*self.delays[1:], None), strict=True)
            if after is None or after[0] > self.low
        ]
        if delays[-1][1] != delay_ms and (len(delays) < DELAYS_MAX or delays[-1][0] >= self.end):
            delays = [*(each for each in delays if each[0] < self.end), (self.end, delay_ms)]
        return self._replace(delays=tuple(delays))

    def delay_at(self, offset: int) -> int:
        """The default delay of the record at an offset."""
        return next((delay_ms for start, delay_ms in reversed(self.delays) if start <= offset), 0)

    def delays_between(self, start: int, end: int) -> list[list[int]]:
        """The default delays of a range of offsets, to be compared with those it was read with."""
        changes = [[each, delay_ms] for each, delay_ms in self.delays if start < each < end]
        return [[start, self.delay_at(start)], *changes]

    def has_moved(self, due_ms: int, offset: int) -> bool:
        """Whether a record has been moved, or was cancelled by then."""
        return offset < self.end and (due_ms, offset) <= (self.due_ms, self.offset)

    def cut_at(self, log_end: int) -> "Progress":
        """The progress in a log that ends there now: what is appended anew has been neither looked at nor moved."""
        delays = dict(sorted((min(start, log_end), delay_ms) for start, delay_ms in self.delays))
        return self._replace(
            low=min(self.low, log_end), end=min(self.end, log_end), delays=tuple(sorted(delays.items()))
        )


def progress_of(low: int, metadata: str) -> Progress:
    """The progress that was committed; of an offset that somebody else committed, nothing from there on is moved."""
    try:
        first, second, third, *rest = metadata.split(":")
        due_ms, offset, end = int(first), int(second), int(third)
        pairs = [each.split(",") for each in rest]
        delays = tuple((int(start), int(delay_ms)) for start, delay_ms in pairs)
    except ValueError:
        return Progress(low, end=low)
    numbers = (due_ms, offset, end, *(number for pair in delays for number in pair))
    if not all(BEFORE_ALL <= each <= _LAST for each in numbers) or list(delays) != sorted(delays):
        return Progress(low, end=low)
    return Progress(low, due_ms, offset, end, delays)


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


def place_of(offset: int, headers: Headers) -> int:
    """The offset that a record counts as where records are cancelled."""
    value = dict(headers).get(SCHEDULED)
    if value is None or not value.isdigit() or len(value) > _DIGITS_MAX or int(value) >= offset:
        return offset
    return int(value)


def delivered_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers without those that said when, so that the next delay topic of a chain does not read them."""
    return [(name, value) for name, value in headers if name not in _WHEN]


def next_of_schedule(key: bytes | None, headers: Headers, after_ms: int, place: int) -> tuple[int, Headers] | None:
    """The next time of a periodic record, and the headers with which it waits for it; None of one that is not periodic.

    `place` is that of the record. Raises BadDelayError.
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
    schedule = [
        (CRON, expression),
        (TIME_ZONE, zone),
        (SCHEDULED, str(place).encode()),
        (DELIVER_AT, str(next_ms).encode()),
    ]
    return next_ms, [*delivered_headers(headers), *schedule]


def _milliseconds(name: str, value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > _DIGITS_MAX:
        shown = "null" if value is None else repr(value[:40].decode("utf-8", "replace"))
        raise BadDelayError(f"header {name} must be milliseconds in at most {_DIGITS_MAX} decimal digits, not {shown}")
    return int(value)
