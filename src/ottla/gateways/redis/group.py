"""A consumer group of a stream: what was delivered to whom and is not acknowledged.

group    last-delivered-id, entries-read, pending: id -> Pending
consumer seen, active, ids: what of that it has

A consumer is a client of Redis, or a worker: a member of the share group of the same name, or a client of the NSQ
channel (`ottla.gateways.redis.group_share`). What a worker has, it has until a time; what it gave back, no worker gets
before a time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.gateways.redis.numbers import INT64_MAX
from ottla.gateways.redis.sorted_ids import SortedIds
from ottla.gateways.redis.stream_id import ID_MAX

UNKNOWN: Final = -1
"""entries-read of a group for which it is not known."""
NEVER: Final = -1
FATAL_COUNT: Final = INT64_MAX
FREED_AT_ONCE: Final = 20_000


ID_BITS: Final = 128
_OWNED: Final = 1 << (ID_BITS + 64)


def _time_key(entry_id: int, consumer: "Consumer | None", delivered_ms: int) -> int:
    """What sorts pending entries as XREADGROUP with CLAIM takes them: what nobody has, then the oldest delivery."""
    return (0 if consumer is None else _OWNED) | delivered_ms << ID_BITS | entry_id


class Consumer:
    """A consumer; times in milliseconds since the epoch, `active_ms` NEVER before it got something."""

    __slots__ = ("active_ms", "ids", "is_worker", "name", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int, *, is_worker: bool = False) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = NEVER
        self.ids = SortedIds()
        """What it has."""
        self.is_worker = is_worker
        """Whether it goes when its client does."""

    @property
    def pending_count(self) -> int:
        """How much it has."""
        return len(self.ids)


class Pending:
    """An entry that was delivered and is not acknowledged; nobody has it after XNACK.

    `until_ms` is until when a worker has it, or until when workers do not get it where nobody has it; 0 for no time.
    """

    __slots__ = ("consumer", "count", "delivered_ms", "until_ms")

    def __init__(self, consumer: Consumer | None, delivered_ms: int, count: int, until_ms: int = 0) -> None:
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.count = count
        self.until_ms = until_ms


class Group:
    """Changes come through the methods, which keep the counts of consumers."""

    __slots__ = (
        "_by_time",
        "_ids",
        "consumers",
        "entries_read",
        "last_id",
        "name",
        "on_pending",
        "pending",
        "touched",
        "unowned_count",
    )

    def __init__(self, name: bytes, last_id: int, entries_read: int) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending: dict[int, Pending] = {}
        self.unowned_count = 0
        """How much of what is pending nobody has."""
        self.on_pending: Callable[[int], None] | None = None
        """Told of each entry that somebody else has from now on, or nobody, or that is pending no more."""
        self.touched: set[int] | None = None
        """Takes the ids of which something changes, while somebody wants to know."""
        self._ids = SortedIds()  # of pending
        self._by_time: SortedIds | None = None  # of pending, where somebody asks for that: see `_time_key`

    def add_consumer(self, name: bytes, now_ms: int, *, is_worker: bool = False) -> Consumer:
        """The consumer of this name, made if need be."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = self.consumers[name] = Consumer(name, now_ms, is_worker=is_worker)
        return consumer

    def assign(
        self, entry_id: int, consumer: Consumer | None, delivered_ms: int, count: int, until_ms: int = 0
    ) -> None:
        """An entry is pending, and a consumer has it from now on."""
        pending = self.pending.get(entry_id)
        if pending is None:
            self.pending[entry_id] = Pending(consumer, delivered_ms, count, until_ms)
            self._ids.add(entry_id)
        else:
            self._disown(entry_id, pending)
            pending.consumer, pending.delivered_ms, pending.count = consumer, delivered_ms, count
            pending.until_ms = until_ms
        if self._by_time is not None:
            self._by_time.add(_time_key(entry_id, consumer, delivered_ms))
        if consumer is not None:
            consumer.ids.add(entry_id)
        else:
            self.unowned_count += 1
        if self.touched is not None:
            self.touched.add(entry_id)
        if self.on_pending is not None:
            self.on_pending(entry_id)

    def assign_all(
        self, ids: list[int], consumer: Consumer | None, delivered_ms: int, counts: list[int], until_ms: int = 0
    ) -> None:
        """`assign` of several, each with its count."""
        pending = self.pending
        if consumer is None or not self._is_plain or not pending.keys().isdisjoint(ids):
            for entry_id, count in zip(ids, counts, strict=True):
                self.assign(entry_id, consumer, delivered_ms, count, until_ms)
            return
        for entry_id, count in zip(ids, counts, strict=True):
            pending[entry_id] = Pending(consumer, delivered_ms, count, until_ms)
        self._ids.add_all(ids)
        consumer.ids.add_all(ids)
        if self.touched is not None:
            self.touched.update(ids)

    def release_all(self, ids: list[int]) -> None:
        """`release` of several."""
        if not self._is_plain:
            for entry_id in ids:
                self.release(entry_id)
            return
        pop = self.pending.pop
        gone: list[int] = []
        held: dict[Consumer | None, list[int]] = {}
        latest: Consumer | None = None
        some: list[int] = []
        for entry_id in ids:
            pending = pop(entry_id, None)
            if pending is not None:
                gone.append(entry_id)
                if pending.consumer is not latest or not held:
                    latest = pending.consumer
                    some = held.setdefault(latest, [])
                some.append(entry_id)
        self._ids.remove_all(gone)
        for consumer, some in held.items():
            if consumer is None:
                self.unowned_count -= len(some)
            else:
                consumer.ids.remove_all(some)
        if self.touched is not None:
            self.touched.update(gone)

    @property
    def _is_plain(self) -> bool:
        """Whether what changes is noted in no more than the ids."""
        return self.on_pending is None and self._by_time is None

    def _disown(self, entry_id: int, pending: Pending) -> None:
        if self._by_time is not None:
            self._by_time.remove(_time_key(entry_id, pending.consumer, pending.delivered_ms))
        if pending.consumer is not None:
            pending.consumer.ids.remove(entry_id)
        else:
            self.unowned_count -= 1

    def release(self, entry_id: int) -> bool:
        """An entry is pending no more; returns whether it was."""
        pending = self.pending.pop(entry_id, None)
        if pending is None:
            return False
        self._disown(entry_id, pending)
        self._ids.remove(entry_id)
        if self.touched is not None:
            self.touched.add(entry_id)
        if self.on_pending is not None:
            self.on_pending(entry_id)
        return True

    def remove_consumer(self, name: bytes) -> int:
        """A consumer goes, and what it has is pending no more; returns how much that was."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return 0
        held = list(consumer.ids.between(0, ID_MAX))
        for entry_id in held:
            self.release(entry_id)
        return len(held)

    def dismantle(self) -> Iterator[None]:
        """For a group that is gone: let go of what is pending a part at a time, as freeing much of it takes long."""
        pending = self.pending
        while pending:
            for _ in range(min(FREED_AT_ONCE, len(pending))):
                pending.popitem()
            yield
        for ids in (self._ids, self._by_time, *(each.ids for each in self.consumers.values())):
            if ids is not None:
                yield from ids.dismantle()

    def pending_from(self, first: int, last: int) -> Iterator[tuple[int, Pending]]:
        """What is pending of an interval of ids, by id. The group may change while it is read."""
        for entry_id in self._ids.between(first, last):
            pending = self.pending.get(entry_id)
            if pending is not None:
                yield entry_id, pending

    def held_from(self, consumer: Consumer, first: int, last: int) -> Iterator[tuple[int, Pending]]:
        """What a consumer has of an interval of ids, as `pending_from`."""
        for entry_id in consumer.ids.between(first, last):
            pending = self.pending.get(entry_id)
            if pending is not None and pending.consumer is consumer:
                yield entry_id, pending

    def sort_by_time(self, at_once: int) -> Iterator[None]:
        """Before `by_time`: where very much is pending it is kept in that order from now on, which is made bit by bit.
        Nothing may change meanwhile.
        """
        if self._by_time is None and len(self.pending) > at_once:
            by_time = SortedIds()
            for number, (entry_id, each) in enumerate(self.pending_from(0, ID_MAX), 1):
                by_time.add(_time_key(entry_id, each.consumer, each.delivered_ms))
                if not number % at_once:
                    yield
            self._by_time = by_time

    def by_time(self, latest_ms: int) -> Iterator[tuple[int, Pending]]:
        """What nobody has, then what was delivered up to a time, each by the time of delivery."""
        end = _OWNED | max(0, latest_ms + 1) << ID_BITS
        if self._by_time is None:
            keys = (_time_key(entry_id, each.consumer, each.delivered_ms) for entry_id, each in self.pending.items())
            sorted_keys: Iterable[int] = sorted(key for key in keys if key < end)
        else:
            sorted_keys = self._by_time.between(0, end - 1)
        for key in sorted_keys:
            entry_id = key & ID_MAX
            yield entry_id, self.pending[entry_id]

    @property
    def first_pending(self) -> int:
        """The smallest id that is pending, of some."""
        return self._ids.first

    @property
    def last_pending(self) -> int:
        """The largest id that is pending, of some."""
        return self._ids.last
