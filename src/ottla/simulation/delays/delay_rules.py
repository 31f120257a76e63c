"""What is promised of a delay topic, checked from the outside: by what is read of its log and committed in its target.

never early, lost or twice    a record that waits, or a letter
                              by the latest clock of all who have delivered: the time of a topic does not go back
cancelled                     what its key's cancellation, read before, concerns is not taken any more
at most a second late         while there is a leader and nothing goes wrong
schedules                     each time once, with that time, until it is cancelled or another one takes its place
progress                      never goes back, but where the log was cut
"""

from typing import Final, Literal

from msgspec import Struct

from ottla.queues.delay import Progress
from ottla.simulation.delays.delay_target import MoverTransaction
from ottla.simulation.whole.clock import BEGIN_MS

LATE_MS: Final = 1_000
READ_MS: Final = 300
"""A cancellation that was there for so long is known to whoever takes what is due."""

MINUTE_MS: Final = 60_000
Kind = Literal["plain", "letter", "schedule", "cancel"]


class Written(Struct):
    """What a producer wrote. Of a schedule, `due_ms` and `latest_ms` say from when on it has times."""

    number: int
    kind: Kind
    key: bytes | None
    due_ms: int
    """Never before this time, by the wall clock."""
    latest_ms: int
    """Never after it, but for the second that is allowed."""
    is_letter: bool = False
    """Whether it cannot be delivered."""
    offset: int = -1
    read_ms: int = -1
    """When it was committed, on the clock that all share; -1: it was not."""
    epoch: int = -1
    """The leader epoch in which it was."""
    is_cut: bool = False
    """Whether the log lost it."""

    def __str__(self) -> str:
        key = "" if self.key is None else f" of {self.key.decode()}"
        due = f", due {self.due_ms - BEGIN_MS:,}" if self.kind in ("plain", "schedule") else ""
        return f"{self.kind} {self.number}{key}{due}"


class Taken(Struct):
    """A delivery."""

    transaction: MoverTransaction
    timestamp_ms: int


class DelayRules:
    """`wrong` is what was broken, in order."""

    def __init__(self, *, reads_all_first: bool) -> None:
        """`reads_all_first`: whether what is cancelled is known to whoever delivers, however much is late."""
        self._reads_all_first = reads_all_first
        self.wrong: dict[str, None] = {}
        self.deliveries = 0
        self._written: dict[int, Written] = {}
        self._taken: dict[int, list[Taken]] = {}
        self._cancels: dict[bytes, list[Written]] = {}
        self._newest_schedule: dict[bytes, int] = {}
        """The last offset of a schedule of a key that was delivered."""
        self._open: dict[int, Written] = {}
        self._progress = Progress()
        self._clock_ms = 0
        """The latest clock of all who have delivered."""
        self._blind_until_ms = 0
        """Who has a full disk reads nothing new, also no cancellations."""
        self._has_been_cut = False

    @property
    def last_ms(self) -> int:
        """When everything is due."""
        return max((record.latest_ms for record in self._written.values()), default=0)

    # --- what happens -----------------------------------------------------------------------------------------------

    def write(self, kind: Kind, key: bytes | None, due_ms: int, latest_ms: int, *, is_letter: bool) -> Written:
        """A producer sends a record."""
        number = len(self._written) + 1
        written = self._written[number] = Written(number, kind, key, due_ms, latest_ms, is_letter)
        return written

    def read(self, number: int, offset: int, now_ms: int, epoch: int) -> None:
        """A record is committed in the delay topic."""
        record = self._written[number]
        if record.read_ms < 0:
            record.offset, record.read_ms, record.epoch, record.is_cut = offset, now_ms, epoch, False
            if record.kind in ("cancel", "schedule") and record.key is not None:
                self._cancels.setdefault(record.key, []).append(record)
            if record.kind != "cancel":
                self._open[number] = record

    def cut(self, end: int) -> None:
        """The log lost everything from an offset on."""
        self._has_been_cut = True
        for record in self._written.values():
            if record.offset >= end:
                record.is_cut = True
                self._open.pop(record.number, None)
        self._progress = self._progress.cut_at(end)

    def blind(self, until_ms: int) -> None:
        """Nobody may be able to read, until some time after now."""
        self._blind_until_ms = max(self._blind_until_ms, until_ms)

    def committed(self, progress: Progress) -> None:
        """The mover has committed how far it is."""
        before, self._progress = self._progress, progress
        if progress.end < before.end or (progress.due_ms, progress.offset) < (before.due_ms, before.offset):
            self._say("progress goes back", f"{before} to {progress}")

    def delivered(self, transaction: MoverTransaction) -> None:
        """A transaction is committed."""
        self._clock_ms = max(self._clock_ms, transaction.clock_ms)
        for row in transaction.rows:
            number = int(row.value.rstrip(b"."))
            record = self._written[number]
            self.deliveries += 1
            if row.is_letter != record.is_letter:
                self._say("the wrong topic", f"{record}")
            taken = Taken(transaction, row.timestamp_ms)
            self._look_at(record, taken)
            self._taken.setdefault(number, []).append(taken)

    def _look_at(self, record: Written, taken: Taken) -> None:
        before = self._taken.get(record.number, ())
        transaction = taken.transaction
        if record.read_ms < 0:
            self._say("delivered before it is committed", f"{record}")
        if record.kind == "cancel":
            self._say("a cancellation is delivered", f"{record}")
        elif record.kind == "schedule":
            self._look_at_time(record, taken)
        else:
            if before:
                self._say("delivered twice", f"{record} by {before[0].transaction} and {transaction}")
            if record.due_ms > self._clock_ms:
                self._say("early", f"{record} by {self._clock_ms - BEGIN_MS:,}")
            self._open.pop(record.number, None)
        cancel = self._cancelled_by(record)
        if (
            cancel is not None
            and self._reads_all_first
            and transaction.popped_ms > self._blind_until_ms
            and not record.is_cut
            and cancel.read_ms + READ_MS < transaction.popped_ms
            and cancel.epoch <= transaction.mover_epoch
        ):
            self._say("delivered though it was cancelled", f"{record} by {cancel}, in {transaction}")

    def _look_at_time(self, record: Written, taken: Taken) -> None:
        time_ms, clock_ms = taken.timestamp_ms, self._clock_ms
        if any(each.timestamp_ms == time_ms for each in self._taken.get(record.number, ())):
            self._say("a time twice", f"{record} at {time_ms - BEGIN_MS:,}")
        if time_ms % MINUTE_MS or time_ms <= record.due_ms or time_ms > clock_ms:
            self._say("early", f"{record} at {time_ms - BEGIN_MS:,} by {clock_ms - BEGIN_MS:,}")
        key = record.key or b""
        newest = self._newest_schedule.get(key, -1)
        if record.offset < newest and not self._has_been_cut:
            self._say("a schedule goes on that was replaced", f"{record}")
        self._newest_schedule[key] = max(newest, record.offset)

    # --- what does not happen ---------------------------------------------------------------------------------------

    def look(self, now_ms: int, calm_since_ms: int, held_ms: int, clock_ms: int) -> None:
        """Whether something is late that a leader with this wall clock, undisturbed since then, has to have moved.
        `held_ms` is when a producer last had a transaction open, behind which times of schedules wait as well.
        """
        for record in tuple(self._open.values()):
            since_ms = max(record.read_ms, calm_since_ms)
            if self._cancels_of(record):  # it may be, sooner or later
                if record.kind == "schedule" or record.number in self._taken:
                    del self._open[record.number]
                continue
            if now_ms - since_ms <= LATE_MS:
                continue
            if record.kind == "schedule":
                self._look_for_time(record, clock_ms, clock_ms - (now_ms - max(since_ms, held_ms)))
            elif record.latest_ms < clock_ms - LATE_MS:
                self._say("late", f"{record}, it is {clock_ms - BEGIN_MS:,}")

    def _look_for_time(self, record: Written, clock_ms: int, since_ms: int) -> None:
        last_ms = max((each.timestamp_ms for each in self._taken.get(record.number, ())), default=0)
        time_ms = (clock_ms - LATE_MS) // MINUTE_MS * MINUTE_MS
        has_begun = max(since_ms, record.latest_ms) + LATE_MS < time_ms
        if last_ms < time_ms and has_begun and not self._has_been_cut:
            self._say("late", f"{record} at {time_ms - BEGIN_MS:,}, it is {clock_ms - BEGIN_MS:,}")

    def left(self) -> list[Written]:
        """What waits and is to be delivered."""
        return [
            record
            for record in self._open.values()
            if record.kind != "schedule" and not record.is_cut and not self._cancels_of(record)
        ]

    def _cancels_of(self, record: Written) -> list[Written]:
        if record.key is None:
            return []
        return [each for each in self._cancels.get(record.key, ()) if each.offset > record.offset]

    def _cancelled_by(self, record: Written) -> Written | None:
        return next((each for each in self._cancels_of(record) if not each.is_cut and each.kind == "cancel"), None)

    def _say(self, rule: str, what: str) -> None:
        self.wrong.setdefault(f"{rule}: {what}")
