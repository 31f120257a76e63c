"""What became of the records of share partitions: to whom they were delivered and when, and how that ended.

In memory of the broker that leads a partition, for groups that have it kept (`ottla.history.ms`). Who leads after a
restart or a move begins a new one; `ottla.broker.history_topic` keeps what was noted before.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from ottla.queues.acknowledgements import ACKNOWLEDGED, ARCHIVED, GAP, REJECT, Run, Settled
from ottla.queues.share_state import ShareKey
from ottla.queues.state_batches import StateBatch

EVENTS_MAX: Final = 20_000
"""Events of one group in one partition; the oldest go first. An event is of a run of records, some 150 bytes."""

EVENTS_OF_ALL_MAX: Final = 200_000
"""Events of all groups and partitions of a broker: those go that were least recently written to."""

DELIVERED: Final = "delivered"
ACCEPTED: Final = "accepted"
RELEASED: Final = "released"
REJECTED: Final = "rejected"
TOO_OFTEN: Final = "archived: delivered too often"
NOT_THERE: Final = "archived: not in the log"
EXPIRED: Final = "archived: too old"
LOCK_OVER: Final = "lock is over"
MEMBER_GONE: Final = "member is gone"


class Event(NamedTuple):
    """What happened to records from a first to a last offset. `member_id` is empty where no member did it."""

    at_ms: int
    what: str
    first: int
    last: int
    deliveries: int
    member_id: str = ""


class History:
    """Of one group in one partition."""

    def __init__(
        self,
        on_grown: Callable[["History", int], None] = lambda history, by: None,
        on_noted: Callable[[list[Event]], None] = lambda events: None,
    ) -> None:
        """`on_grown` is told by how many events there are more, or less; `on_noted` of each new event."""
        self._on_noted = on_noted
        self._events: deque[Event] = deque()
        self._on_grown = on_grown
        self.keep_ms = 0
        """How long events are kept; 0: there are none."""

    def __len__(self) -> int:
        return len(self._events)

    def note(self, now_ms: int, what: str, runs: Iterable[tuple[int, int, int]], member_id: str = "") -> None:
        """Something happened to runs of first offset, last offset and delivery count."""
        events, before = self._events, len(self._events)
        if self.keep_ms:
            noted = [Event(now_ms, what, first, last, count, member_id) for first, last, count in runs]
            events.extend(noted)
            self._on_noted(noted)
        while events and (len(events) > EVENTS_MAX or events[0].at_ms + self.keep_ms <= now_ms):
            events.popleft()
        if len(events) != before:
            self._on_grown(self, len(events) - before)

    def drop(self, count: int) -> int:
        """Forget the oldest events, up to so many. Returns how many those were."""
        count = min(count, len(self._events))
        for _ in range(count):
            self._events.popleft()
        return count

    def note_settled(self, now_ms: int, becomes: Iterable[StateBatch], settled: Iterable[Settled]) -> None:
        """Members settled records: what they became, and how they were settled."""
        if not self.keep_ms:
            return
        kinds = list(settled)
        for first, last, state, count, _ in becomes:
            what = ACCEPTED if state == ACKNOWLEDGED else RELEASED
            if state == ARCHIVED:
                kind = next((kind for low, high, kind in kinds if low <= first <= high), GAP)
                what = REJECTED if kind == REJECT else NOT_THERE if kind == GAP else TOO_OFTEN
            self.note(now_ms, what, [(first, last, count)])

    def note_given_back(self, now_ms: int, released: Iterable[Run], why: str) -> None:
        """Records were taken from their members."""
        if self.keep_ms:
            for first, last, state, count in released:
                self.note(now_ms, f"{why}, {TOO_OFTEN}" if state == ARCHIVED else why, [(first, last, count)])

    def of(self, offset: int, now_ms: int) -> list[Event]:
        """What happened to one record, the first event first."""
        begin = now_ms - self.keep_ms
        return [event for event in self._events if event.first <= offset <= event.last and event.at_ms > begin]


class Histories:
    """Of all groups and partitions of a broker. They outlast the share partitions, which go with their last member."""

    def __init__(self, on_noted: Callable[[ShareKey, list[Event]], None] = lambda key, events: None) -> None:
        """`on_noted` is told of each new event."""
        self._on_noted = on_noted
        self._histories: OrderedDict[ShareKey, History] = OrderedDict()
        self._count = 0

    def of(self, key: ShareKey) -> History:
        """The history of a group in a partition; a new one, which is kept once it has an event, if there is none."""
        history = self._histories.get(key)
        return History(partial(self._grown, key), partial(self._on_noted, key)) if history is None else history

    def find(self, key: ShareKey) -> History | None:
        """The history of a group in a partition, if there is one."""
        return self._histories.get(key)

    def _grown(self, key: ShareKey, history: History, by: int) -> None:
        self._count += by
        kept = self._histories.get(key)
        if kept is not history:
            self._count -= 0 if kept is None else len(kept)
            self._histories[key] = history
        self._histories.move_to_end(key)
        while self._count > EVENTS_OF_ALL_MAX:
            oldest = next(iter(self._histories))
            self._count -= self._histories[oldest].drop(self._count - EVENTS_OF_ALL_MAX)
            if not len(self._histories[oldest]):
                del self._histories[oldest]
