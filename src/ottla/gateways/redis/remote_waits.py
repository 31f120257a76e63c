"""Clients here that wait for keys which other brokers lead.

    a command waits --> Watch, to the leaders of its keys --> Changed, when one has changed --> the command is run again

A leader may die without a word, and a key may be made at another broker while clients wait for it: so leaders are asked
again every second, and whenever the metadata changes all keys are looked at.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.client.errors import ClientError
from ottla.gateways.redis import peer_messages as messages
from ottla.gateways.redis.peer_messages import Watch, Watched
from ottla.gateways.redis.placement import Place
from ottla.metadata.image.image import NO_LEADER
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway

TICK_MS: Final = 100
ASK_TICKS: Final = 10
ASK_TIMEOUT_MS: Final = 5_000


class RemoteWaits:
    """Of one broker. Belongs to the event loop."""

    def __init__(self, gateway: RedisGateway) -> None:
        self._gateway = gateway
        self._own_id = gateway.broker.config.node_id
        self._seen: dict[Place, tuple[int, bytes]] = {}  # the leader, and what it said of a key last
        self._new: list[Place] = []
        self._is_ticking = False
        self._ticks = 0
        self._image: object = None

    def add(self, keys: list[Watched]) -> None:
        """A command is about to wait for these keys, which have these versions at their leaders."""
        for each in keys:
            place = each.database, each.key
            owner = self._gateway.keyspace.owner_of(place)
            if owner is not None and owner != self._own_id:
                self._seen[place] = owner, each.version
                if not self._new:
                    asyncio.get_running_loop().call_soon(self._ask_new)
                self._new.append(place)

    def begin(self) -> None:
        """A client waits: look after what it waits for."""
        if not self._is_ticking and self._gateway.keyspace.placement.has_peers:
            self._is_ticking = True
            self._image = self._gateway.broker.image
            self._gateway.broker.timer.schedule(TICK_MS, self._tick)

    def _ask_new(self) -> None:
        new, self._new = self._new, []
        self._ask(new)

    def _tick(self) -> None:
        places = self._gateway.waiters.places
        if not places:
            self._is_ticking = False
            self._seen.clear()
            self._gateway.peer_commands.forget_old_interests()
            return
        self._gateway.broker.timer.schedule(TICK_MS, self._tick)
        self._ticks += 1
        if self._gateway.broker.image is not self._image:
            self._image = self._gateway.broker.image
            self._look_at_leaders(places)
        if self._ticks % ASK_TICKS == 0:
            waiting = set(places)
            self._seen = {place: seen for place, seen in self._seen.items() if place in waiting}
            self._ask(list(self._seen))

    def _look_at_leaders(self, places: list[Place]) -> None:
        """Keys that are led elsewhere than before are looked at anew."""
        for place in places:
            owner = self._gateway.keyspace.owner_of(place)
            before = self._seen.get(place)
            if owner != (self._own_id if before is None else before[0]) and not (before is None and owner is None):
                self._changed(place)
        self._gateway.serve_waiters()

    def _changed(self, place: Place) -> None:
        self._seen.pop(place, None)
        self._gateway.waiters.changed(*place)

    def _ask(self, places: list[Place]) -> None:
        by_leader: dict[int, list[Watched]] = {}
        for place in places:
            seen = self._seen.get(place)
            if seen is not None and seen[0] != NO_LEADER:
                by_leader.setdefault(seen[0], []).append(Watched(*place, seen[1]))
        for leader, keys in by_leader.items():
            self._gateway.broker.tasks.spawn(self._watch(leader, keys), "redis-watch")

    async def _watch(self, leader: int, keys: list[Watched]) -> None:
        message = Watch(keys)
        try:
            data = await self._gateway.forwarding.ask(leader, message, timeout_ms=ASK_TIMEOUT_MS)
        except (ClientError, ApiError):
            return  # the next tick asks again, of whoever leads then
        for each in messages.decode_watched(data):
            self._changed((each.database, each.key))
        self._gateway.serve_waiters()
