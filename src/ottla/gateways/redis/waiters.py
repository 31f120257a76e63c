"""Clients that wait for keys to change, in the order in which they came (XREAD BLOCK, XREADGROUP BLOCK).

key --> Line: workers of one group, who want the same: when the first gets nothing the others need not look
    --> Line: a client that waits for itself
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.placement import Place

if TYPE_CHECKING:
    from ottla.gateways.redis.connection import RedisConnection
    from ottla.gateways.redis.session import BlockError
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask


WOKEN_A_TURN: Final = 50
"""So many clients look again in one turn of the event loop; the others follow in the next ones."""


OPTIONS_AT: Final = 4
"""Behind XREADGROUP GROUP, the group and the consumer."""


class _Line:
    """Clients that wait for the same, the first of which gets what there is."""

    __slots__ = ("places", "waiters")

    def __init__(self, places: tuple[Place, ...]) -> None:
        self.places = places
        self.waiters: dict[Waiter, None] = {}


class Waiters:
    """Of one broker. Belongs to the event loop."""

    def __init__(self, timer: Timer, on_more: Callable[[], None]) -> None:
        """`on_more` is called where more clients are to look again: `serve` has to follow in another turn."""
        self.timer = timer
        self._on_more = on_more
        self._due: dict[_Line, None] = {}  # are to look again
        self._by_place: dict[Place, dict[_Line, None]] = {}
        self._groups: dict[tuple[Place, bytes], _Line] = {}
        self.changed_places: dict[Place, None] = {}
        """The keys that have changed and for which somebody waits."""
        self.count = 0

    @property
    def key_count(self) -> int:
        """For how many keys somebody waits."""
        return len(self._by_place)

    @property
    def places(self) -> list[Place]:
        """The keys for which somebody waits."""
        return list(self._by_place)

    def add(self, waiter: Waiter) -> _Line:
        """A client waits, in the line that is returned."""
        self.count += 1
        line = None if waiter.group is None else self._groups.get((waiter.places[0], waiter.group))
        if line is None:
            line = _Line(waiter.places)
            if waiter.group is not None:
                self._groups[waiter.places[0], waiter.group] = line
            for place in line.places:
                self._by_place.setdefault(place, {})[line] = None
        line.waiters[waiter] = None
        return line

    def remove(self, waiter: Waiter) -> None:
        """A client waits no more."""
        self.count -= 1
        line = waiter.line
        line.waiters.pop(waiter, None)
        if line.waiters:
            return
        self._due.pop(line, None)
        if waiter.group is not None:
            self._groups.pop((waiter.places[0], waiter.group), None)
        for place in line.places:
            waiting = self._by_place.get(place)
            if waiting is not None:
                waiting.pop(line, None)
                if not waiting:
                    del self._by_place[place]

    def is_awaited(self, database: int, key: bytes) -> bool:
        """Whether somebody waits for a key."""
        return bool(self._by_place) and (database, key) in self._by_place

    def changed(self, database: int, key: bytes) -> None:
        """A key has changed."""
        if self.is_awaited(database, key):
            self.changed_places[database, key] = None

    @property
    def is_behind(self) -> bool:
        """Whether clients are to look again that did not yet."""
        return bool(self._due)

    def serve(self) -> None:
        """Let those who wait for what has changed look again, some of them now."""
        due, left = self._due, WOKEN_A_TURN
        while left and (due or self.changed_places):
            changed, self.changed_places = self.changed_places, {}
            for place in changed:
                due.update(self._by_place.get(place, {}))
            while due and left and not self.changed_places:
                line = next(iter(due))
                waiter = next(iter(line.waiters), None)
                if waiter is None or not waiter.wake() or not line.waiters:
                    due.pop(line, None)
                left -= 1
        if due or self.changed_places:
            self._on_more()


class Waiter:
    """One command that waits."""

    __slots__ = ("_connection", "_is_over", "_timer", "_waiters", "arguments", "group", "line", "places")

    def __init__(self, waiters: Waiters, connection: RedisConnection, block: BlockError, timeout_ms: int) -> None:
        """`timeout_ms` is what is left of the time of the command, 0 for no end."""
        self.arguments = block.arguments
        self.places = tuple(dict.fromkeys((connection.session.database, key) for key in block.keys))
        self.group = _group_of(block.arguments) if len(self.places) == 1 else None
        """The group whose new entries it waits for, and for nothing else."""
        self._connection = connection
        self._waiters = waiters
        self._is_over = False
        self._timer: TimerTask | None = None
        if timeout_ms:
            self._timer = waiters.timer.schedule(timeout_ms, self.time_out)
        self.line = waiters.add(self)

    def wake(self) -> bool:
        """Something has changed; returns whether it waits no more."""
        if self._connection.woken(self):
            self.cancel()
        return self._is_over

    def time_out(self, error: bytes | None = None) -> None:
        """Its time is up, or somebody ends it with an error."""
        if not self._is_over:
            self.cancel()
            self._connection.timed_out(self, error)

    def cancel(self) -> None:
        """It waits no more."""
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._waiters.remove(self)


def _group_of(arguments: list[bytes]) -> bytes | None:
    """The group of XREADGROUP GROUP g c .. without CLAIM; None for anything else."""
    if len(arguments) <= OPTIONS_AT or arguments[0].upper() != b"XREADGROUP" or arguments[1].upper() != b"GROUP":
        return None
    return None if any(each.upper() == b"CLAIM" for each in arguments[OPTIONS_AT:-2]) else arguments[2]
