"""Which entries of a group workers have, and which may be given to them: the part of a group's state that is no record.

    pending     5-0 alice    6-0 worker-1, until 12:00    7-0 nobody    8-0 nobody, not before 12:05
    holds                    6-0 at offset 17
    free                                                  7-0
    waiting                                                             8-0

Workers are members of the share group of the same name, and clients of the NSQ channel. What they do is journaled as
marks of the stream, as what the commands of Redis clients do is. What a client of Redis does to an entry that a worker
has (XACK, XCLAIM, XNACK) ends the hold. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.numbers import INT64_MAX
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import Assigned, ConsumerDeleted, Released

if TYPE_CHECKING:
    from ottla.gateways.redis.entry_places import EntryAt
    from ottla.gateways.redis.group import Group, Pending
    from ottla.gateways.redis.stream import Stream

STALE_MIN: Final = 64


class Lease:
    """What a worker was given at once, and has until a time."""

    __slots__ = ("deliveries_max", "ids", "member_id", "until_ms")

    def __init__(self, member_id: str, until_ms: int, deliveries_max: int) -> None:
        """`deliveries_max` is the limit of deliveries for what is not settled in time; 0 for none."""
        self.member_id = member_id
        self.until_ms = until_ms
        self.deliveries_max = deliveries_max
        self.ids: set[int] = set()


class Hold:
    """An entry that a worker has."""

    __slots__ = ("entry_id", "lease", "offset")

    def __init__(self, entry_id: int, offset: int, lease: Lease) -> None:
        self.entry_id = entry_id
        self.offset = offset
        self.lease = lease


class WorkerHolds:
    """Of one group. Belongs to the event loop."""

    def __init__(
        self,
        stream: Stream,
        group: Group,
        on_freed: Callable[[], None],
        on_taken: Callable[[str, int], None],
        on_ended: Callable[[Lease], None],
    ) -> None:
        """`on_freed` is called when an entry may be given to a worker; `on_taken` with a member and an offset when a
        client of Redis has taken an entry from it; `on_ended` when a lease has nothing left.
        """
        self._stream = stream
        self._group = group
        self._on_freed = on_freed
        self._on_taken = on_taken
        self._on_ended = on_ended
        self._by_offset: dict[int, Hold] = {}
        self._by_id: dict[int, Hold] = {}
        self._of_member: dict[str, set[int]] = {}
        self._free: list[int] = []
        self._waiting: list[tuple[int, int]] = []
        self._is_own = False
        group.on_pending = self._on_pending

    def close(self) -> None:
        """Nothing is told of the group any more."""
        if self._group.on_pending == self._on_pending:
            self._group.on_pending = None

    @property
    def count(self) -> int:
        """How many entries workers have."""
        return len(self._by_id)

    @property
    def waiting_count(self) -> int:
        """How many entries wait for their time; may count some twice that have been taken meanwhile."""
        return len(self._waiting)

    def hold(self, offset: int) -> Hold | None:
        """Who has the entry at an offset."""
        return self._by_offset.get(offset)

    def offset(self, entry_id: int) -> int | None:
        """The offset of an entry that a worker has."""
        hold = self._by_id.get(entry_id)
        return None if hold is None else hold.offset

    def held_by(self, member_id: str) -> list[Hold]:
        """What a member has."""
        return [self._by_id[entry_id] for entry_id in sorted(self._of_member.get(member_id, ()))]

    # --- what may be given out ----------------------------------------------------------------------------------------

    def learn(self, ids: Iterable[int], now_ms: int) -> list[int]:
        """These are pending: those that nobody has may be given out. Returns those that workers had of whom nothing is
        known here.
        """
        orphans = []
        for entry_id in ids:
            pending = self._group.pending.get(entry_id)
            if pending is None:
                continue
            if pending.consumer is None:
                self._add_free(entry_id, pending.until_ms, now_ms)
            elif pending.until_ms and entry_id not in self._by_id:
                orphans.append(entry_id)
        return orphans

    def has_free(self, now_ms: int) -> bool:
        """Whether there is an entry that nobody has and whose time has come."""
        self.come_due(now_ms)
        while self._free and not self._is_free(self._free[0], now_ms):
            heappop(self._free)
        return bool(self._free)

    def pop_free(self, count: int, now_ms: int) -> list[int]:
        """Up to so many of these, the smallest id first; they are to be taken, or pushed back."""
        found: list[int] = []
        while len(found) < count and self.has_free(now_ms):
            entry_id = heappop(self._free)
            if not found or found[-1] != entry_id:
                found.append(entry_id)
        return found

    def push_back(self, ids: Iterable[int]) -> None:
        """These were not taken."""
        for entry_id in ids:
            heappush(self._free, entry_id)

    def come_due(self, now_ms: int) -> int | None:
        """Entries whose time has come are free. Returns when the next one's does; None for none."""
        while self._waiting:
            until_ms, entry_id = self._waiting[0]
            pending = self._group.pending.get(entry_id)
            is_waiting = pending is not None and pending.consumer is None and pending.until_ms == until_ms
            if is_waiting and until_ms > now_ms:
                return until_ms
            heappop(self._waiting)
            if is_waiting:
                heappush(self._free, entry_id)
        return None

    def _is_free(self, entry_id: int, now_ms: int) -> bool:
        pending = self._group.pending.get(entry_id)
        return pending is not None and pending.consumer is None and pending.until_ms <= now_ms

    def _add_free(self, entry_id: int, until_ms: int, now_ms: int) -> None:
        if until_ms > now_ms:
            heappush(self._waiting, (until_ms, entry_id))
            return
        heappush(self._free, entry_id)
        if len(self._free) > 2 * self._group.unowned_count + STALE_MIN:
            self._free = [each for each in set(self._free) if self._is_free(each, now_ms)]
            heapify(self._free)

    # --- changes ------------------------------------------------------------------------------------------------------

    def take(self, lease: Lease, places: Sequence[EntryAt], now_ms: int) -> list[int]:
        """A worker has entries from now on that nobody has, or that were never delivered. Returns how often each was
        delivered, this time included.
        """
        pending = self._group.pending
        counts = [
            min(1 + (0 if (before := pending.get(entry_id)) is None else before.count), INT64_MAX)
            for _, entry_id in places
        ]
        self._assign(lease.member_id, [entry_id for _, entry_id in places], counts, now_ms, now_ms, lease.until_ms)
        for offset, entry_id in places:
            held = self._by_id.get(entry_id)
            if held is not None:  # XGROUP SETID went back
                self._remove(held)
                self._on_taken(held.lease.member_id, offset)
            self._add(Hold(entry_id, offset, lease))
        return counts

    def renew(self, lease: Lease, holds: Sequence[Hold], now_ms: int) -> None:
        """A worker has entries until another time: those of a new lease."""
        ids = [hold.entry_id for hold in holds]
        counts = [self._group.pending[entry_id].count for entry_id in ids]
        self._assign(lease.member_id, ids, counts, now_ms, now_ms, lease.until_ms)
        for hold in holds:
            self._remove(hold)
            self._add(Hold(hold.entry_id, hold.offset, lease))

    def finish(self, holds: Sequence[Hold], now_ms: int) -> None:
        """Entries are done."""
        self._end(holds)
        self.forget([hold.entry_id for hold in holds], now_ms)

    def forget(self, ids: Sequence[int], now_ms: int) -> None:
        """Entries that no worker has are pending no more."""
        ids = [entry_id for entry_id in ids if entry_id in self._group.pending]
        if ids:
            self._mark(Released(self._group.name, [id_bytes(entry_id) for entry_id in ids]), now_ms)

    def give_back(self, holds: Sequence[Hold], now_ms: int, until_ms: int = 0) -> None:
        """Nobody has entries any more, and no worker gets them before a time."""
        self._end(holds)
        self.free([hold.entry_id for hold in holds], now_ms, until_ms)

    def free(self, ids: Sequence[int], now_ms: int, until_ms: int = 0) -> None:
        """The same of entries that no worker has who is known here."""
        ids = [entry_id for entry_id in ids if entry_id in self._group.pending]
        if not ids:
            return
        counts = [self._group.pending[entry_id].count for entry_id in ids]
        self._assign(None, ids, counts, now_ms, 0, until_ms)
        for entry_id in ids:
            self._add_free(entry_id, until_ms, now_ms)
        self._on_freed()

    def set_aside(self, holds: Sequence[Hold]) -> None:
        """Workers have these no more; what becomes of them is said later, with `free` or `forget`."""
        self._end(holds)

    def is_aside(self, hold: Hold) -> bool:
        """Whether an entry that was set aside is still as it was."""
        pending = self._group.pending.get(hold.entry_id)
        return pending is not None and _is_of(pending, hold.lease) and hold.entry_id not in self._by_id

    def drop_worker(self, member_id: str, now_ms: int) -> None:
        """A worker is gone: so is its consumer, unless that has something."""
        name = member_id.encode()
        consumer = self._group.consumers.get(name)
        if consumer is not None and consumer.is_worker and not consumer.pending_count:
            self._mark(ConsumerDeleted(self._group.name, name), now_ms)

    def _assign(
        self, member_id: str | None, ids: list[int], counts: list[int], now_ms: int, delivered_ms: int, until_ms: int
    ) -> None:
        name = None if member_id is None else member_id.encode()
        if len(set(counts)) == 1:
            counts = counts[:1]
        rows = [id_bytes(entry_id) for entry_id in ids]
        self._mark(Assigned(self._group.name, name, now_ms, delivered_ms, rows, counts, until_ms), now_ms)

    def _mark(self, mark: Assigned | Released | ConsumerDeleted, now_ms: int) -> None:
        self._is_own = True
        try:
            self._stream.mark(now_ms, mark)
        finally:
            self._is_own = False

    # --- holds --------------------------------------------------------------------------------------------------------

    def _add(self, hold: Hold) -> None:
        self._by_id[hold.entry_id] = self._by_offset[hold.offset] = hold
        self._of_member.setdefault(hold.lease.member_id, set()).add(hold.entry_id)
        hold.lease.ids.add(hold.entry_id)

    def _end(self, holds: Sequence[Hold]) -> None:
        for hold in holds:
            self._remove(hold)

    def _remove(self, hold: Hold) -> None:
        lease = hold.lease
        del self._by_id[hold.entry_id], self._by_offset[hold.offset]
        of_member = self._of_member[lease.member_id]
        of_member.discard(hold.entry_id)
        if not of_member:
            del self._of_member[lease.member_id]
        lease.ids.discard(hold.entry_id)
        if not lease.ids:
            self._on_ended(lease)

    def _on_pending(self, entry_id: int) -> None:
        """Somebody else than a worker has an entry now, or nobody, or it is done."""
        if self._is_own:
            return
        hold = self._by_id.get(entry_id)
        if hold is not None:
            self._remove(hold)
            self._on_taken(hold.lease.member_id, hold.offset)
        pending = self._group.pending.get(entry_id)
        if pending is not None and pending.consumer is None:
            self._add_free(entry_id, pending.until_ms, 0)
            self._on_freed()


def _is_of(pending: Pending, lease: Lease) -> bool:
    consumer = pending.consumer
    return consumer is not None and consumer.name == lease.member_id.encode() and pending.until_ms == lease.until_ms
