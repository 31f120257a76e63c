"""What is pending in a group, encoded for a snapshot in slices while it changes: a million of it takes seconds.

Held 1-0 .. 9-3 | Held 9-4 .. | Released 2-0, Held 5-1 | .. Released, Held, ConsumerDeleted
all, a slice at a time         what changed meanwhile    the rest, in the turn of the snapshot
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes

if TYPE_CHECKING:
    from ottla.gateways.redis.group import Consumer, Group

SLICE: Final = 1_000
"""So much is encoded at a time."""
ROUNDS_MAX: Final = 10
"""So often, at most, what has changed since the time before is encoded again beside other work."""


class PendingRows:
    """Of one group, from when it is made until `end` is called. Belongs to the event loop."""

    def __init__(self, group: Group, now_ms: int) -> None:
        self.group = group
        self.records: list[records.Record] = []
        self._now_ms = now_ms
        self._consumers: dict[bytes, Consumer] = {}  # that were seen to have something
        self._touched: set[int] = set()
        group.touched = self._touched

    def end(self) -> None:
        """Changes are noted no more."""
        self.group.touched = None

    def slices(self) -> Iterator[None]:
        """Encode what there is, a slice at a time."""
        following = 0
        while chunk := [entry_id for entry_id, _ in islice(self.group.pending_from(following, ID_MAX), SLICE)]:
            self._say(chunk, is_first=True)
            following = chunk[-1] + 1
            yield
        for _ in range(ROUNDS_MAX):
            if len(self._touched) <= SLICE:
                return
            changed = list(self._touched)
            self._touched.clear()
            for at in range(0, len(changed), SLICE):
                self._say(changed[at : at + SLICE])
                yield

    def finish(self) -> list[records.KeptConsumer]:
        """Encode the rest: the group is as the records say now. Returns the consumers that were deleted meanwhile, and
        are named in records.
        """
        changed = list(self._touched)
        for at in range(0, len(changed), SLICE):
            self._say(changed[at : at + SLICE])
        self.end()
        gone = [each for each in self._consumers.values() if each.name not in self.group.consumers]
        for consumer in gone:
            self._add(records.ConsumerDeleted(self.group.name, consumer.name))
        return [(each.name, each.seen_ms, each.active_ms) for each in gone]

    def _say(self, ids: list[int], *, is_first: bool = False) -> None:
        group = self.group
        found = [(entry_id, group.pending.get(entry_id)) for entry_id in ids]
        there = [(entry_id, each) for entry_id, each in found if each is not None]
        for _, each in there:
            if each.consumer is not None:
                self._consumers[each.consumer.name] = each.consumer
        released = [] if is_first else [id_bytes(entry_id) for entry_id, each in found if each is None]
        if released:
            self._add(records.Released(group.name, released))
        if there:
            self._add(records.held(group, there))

    def _add(self, mark: records.Mark) -> None:
        self.records.append(records.mark(mark, self._now_ms))
