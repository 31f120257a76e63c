"""Where a log starts and ends: known bounds move one way, and whatever is listed lies between them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from ottla.simulation.anomaly import Anomaly, Violation
from races.history import Append, At, Life, Look, Outage, Read, Seen
from races.lives import where

OFFSET_OUT_OF_RANGE = 1


class _Bound:
    """The greatest value that was known at a time, of values that were known from a time on."""

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(points)
        self._times = [at for at, _ in ordered]
        self._values = list(accumulate((value for _, value in ordered), max))

    def before(self, at: float) -> int:
        """What was known before a time; -1 for nothing."""
        index = bisect_left(self._times, at)
        return self._values[index - 1] if index else -1


class _Sum:
    """How much was sent until a time."""

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(points)
        self._times = [at for at, _ in ordered]
        self._values = list(accumulate(value for _, value in ordered))

    def until(self, at: float) -> int:
        index = bisect_right(self._times, at)
        return self._values[index - 1] if index else 0


class LogBounds:
    """What is known of one partition in one life."""

    def __init__(
        self,
        life: Life,
        partition: int,
        sent: list[Append],
        appends: list[Append],
        losable: list[Append],
        reads: list[Read],
        looks: list[Look],
        outages: list[Outage],
    ) -> None:
        """`sent` may have reached this log; `appends` were acknowledged by it, and `losable` as well, until a kill."""
        self.life, self.partition = life, partition
        self.appends, self.outages = appends, outages
        self.reads = [read for read in reads if read.error == 0]
        self.refused = [read for read in reads if read.error == OFFSET_OUT_OF_RANGE]
        self.looks = [look for look in looks if look.error == 0]
        latest = [look for look in self.looks if look.at is At.LATEST]
        committed = [(each.answered_at, each.end) for each in appends if each.acks == -1]
        committed += [(each.answered_at, each.high_watermark) for each in self.reads]
        committed += [(each.answered_at, each.offset) for each in latest]
        self.high_watermark = _Bound(committed)
        self._end = _Bound(committed + [(each.answered_at, each.end) for each in appends])
        self._kills = [each.begun_at for each in outages if each.is_kill]
        self._losable_ends = {
            kills: _Bound(
                (each.answered_at, each.end) for each in losable if self._kills_before(each.asked_at) == kills
            )
            for kills in {self._kills_before(each.answered_at) for each in losable}
        }
        self.sent = _Sum((each.asked_at, each.count) for each in sent)
        self._starts = self._starts_seen()
        self.start = _Bound((each.answered_at, value) for each, value in self._starts)

    def _starts_seen(self) -> list[tuple[Seen, int]]:
        found: list[tuple[Seen, int]] = [(each, each.log_start) for each in self.reads]
        found += [(each, each.log_start) for each in self.appends]
        found += [(each, each.offset) for each in self.looks if each.at is At.EARLIEST]
        return [(each, value) for each, value in found if value >= 0]

    def _kills_before(self, at: float) -> int:
        return sum(each <= at for each in self._kills)

    def end_before(self, at: float) -> int:
        """Where the log ended at least when something was asked at a time."""
        losable = self._losable_ends.get(self._kills_before(at))
        return max(self._end.before(at), -1 if losable is None else losable.before(at))

    def surely_starts_at_or_before(self, offset: int, at: float) -> bool:
        """Whether the log did not yet start behind an offset when a request was answered at a time."""
        if not self.life.takes_records_away:
            return self.life.deletions.get(self.partition, 0) <= offset
        later = [value for each, value in self._starts if each.asked_at >= at]
        return bool(later) and min(later) <= offset

    def check(self) -> Iterator[Violation]:
        """Everything that is wrong with offsets."""
        yield from self._check_ends()
        yield from self._check_starts()
        yield from self._check_refused()
        yield from self._check_looks()

    def _name(self, seen: Seen) -> str:
        return where(seen, self.life)

    def _check_ends(self) -> Iterator[Violation]:
        ends: list[tuple[Seen, int, int]] = [
            (each, each.high_watermark, self.high_watermark.before(each.asked_at))
            for each in self.reads
            if each.high_watermark >= 0
        ]
        ends += [(each, each.offset, self.end_before(each.asked_at)) for each in self.looks if each.at is At.LATEST]
        for each, value, least in ends:
            if value < least:
                text = f"{self._name(each)}: {type(each).__name__.lower()} says {value}, {least} was known"
                yield Violation(Anomaly.END_WENT_BACK, text, each.asked_at)
            elif value > (most := self.sent.until(each.answered_at)):
                text = f"{self._name(each)}: {type(each).__name__.lower()} says {value}, {most} records were sent"
                yield Violation(Anomaly.END_TOO_FAR, text, each.asked_at)
        for append in self.appends:
            if append.end > (most := self.sent.until(append.answered_at)):
                text = f"{self._name(append)}: appended at {append.offset}, {most} records were sent"
                yield Violation(Anomaly.END_TOO_FAR, text, append.asked_at)

    def _check_starts(self) -> Iterator[Violation]:
        kills = self._kills if self.life.takes_records_away else []
        for each, value in self._starts:
            killed_at = max((at for at in kills if at <= each.answered_at), default=None)
            least = self.start.before(each.asked_at)
            # What retention took away may come back when the process is killed before the files are removed.
            if value < least and killed_at is None:
                text = f"{self._name(each)}: starts at {value}, {least} was known"
                yield Violation(Anomaly.START_WENT_BACK, text, each.asked_at)
            elif not self.life.takes_records_away and value > (most := self.life.deletions.get(self.partition, 0)):
                text = f"{self._name(each)}: starts at {value}, deleted were records up to {most}"
                yield Violation(Anomaly.START_TOO_FAR, text, each.asked_at)

    def _check_refused(self) -> Iterator[Violation]:
        for read in self.refused:
            end, offset = self.end_before(read.asked_at), read.fetch_offset
            if 0 <= offset <= end and self.surely_starts_at_or_before(offset, read.answered_at):
                yield Violation(
                    Anomaly.OUT_OF_RANGE, f"{self._name(read)}: {offset}, the log ended at {end}", read.asked_at
                )

    def _check_looks(self) -> Iterator[Violation]:
        for look in self.looks:
            if look.at in {At.LATEST, At.EARLIEST}:
                continue
            text = f"{self._name(look)}: {look.at.name} is at {look.offset}"
            if look.offset > (most := self.sent.until(look.answered_at)):
                yield Violation(Anomaly.WRONG_OFFSET, f"{text}, {most} records were sent", look.asked_at)
            elif 0 <= look.offset < (least := self.start.before(look.asked_at)) and not self.outages:
                yield Violation(Anomaly.WRONG_OFFSET, f"{text}, the log started at {least}", look.asked_at)
            elif look.at is At.MAX_TIMESTAMP and look.offset < 0:
                end = self.high_watermark.before(look.asked_at)
                if end > 0 and self.surely_starts_at_or_before(end - 1, look.answered_at):
                    yield Violation(Anomaly.WRONG_OFFSET, f"{text}, records up to {end} were there", look.asked_at)
