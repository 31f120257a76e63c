"""Finding the topic of a key that is not served yet, or making it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.model import redis_key
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.gateways.redis.placement import Place
    from ottla.model.principal import Principal

NAMES_TRIED_MAX: Final = 100
MOVING_POLL_MS: Final = 10
_MOVING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class KeyOpening:
    """Belongs to the event loop. Of one key at a time."""

    def __init__(self, broker: Broker, keyspace: Keyspace) -> None:
        self._broker = broker
        self._keyspace = keyspace
        self._making: dict[Place, tuple[Principal, asyncio.Task[ApiError | None]]] = {}

    async def open(self, place: Place, principal: Principal) -> None:
        """Have a topic for a key: here, made by somebody if it has to be made, or known to be led elsewhere. Raises
        ApiError.
        """
        while True:
            if place not in self._making:
                making = self._broker.tasks.spawn(self._try(place, principal), "redis-make-topic")
                self._making[place] = principal, making
                making.add_done_callback(lambda _: self._making.pop(place, None))
            maker, making = self._making[place]
            refusal = await asyncio.shield(making)
            if refusal is None:
                return
            if maker == principal:
                raise refusal

    async def _try(self, place: Place, principal: Principal) -> ApiError | None:
        """Returns why there is none, which is no crash of ours."""
        try:
            await self._make(place, principal)
        except ApiError as refusal:
            return refusal
        return None

    async def _make(self, place: Place, principal: Principal) -> None:
        if self._keyspace.has_spare(place) or place[1] in self._keyspace.databases[place[0]]:
            return
        name = redis_key.topic_of_key(*place)
        for number in range(NAMES_TRIED_MAX):
            tried = name if not number else f"{name}-{number}"
            for each in (self._keyspace.unread.get(place), self._keyspace.placement.topic_of(place), tried):
                if each is not None and await self._adopt(place, each):
                    return
            if tried in self._keyspace.topics.dropped:
                continue
            if await self._keyspace.topics.create(place, tried, principal):
                if self._keyspace.placement.has_peers and self._keyspace.topics.rival_of(place, tried) is not None:
                    await self._keyspace.topics.delete_unused(tried)
                    return
                stream = self._keyspace.new_stream(tried)
                stream.log.open()
                self._keyspace.spare[place] = stream
                stream.log.adoption.watch()
                return
            if await self._adopt(place, tried):
                return
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"too many topics have names like {name}")

    async def _adopt(self, place: Place, topic: str) -> bool:
        """Serve a topic that was made for the key; returns whether there is such a topic, here or elsewhere."""
        keyspace, placement = self._keyspace, self._keyspace.placement
        if placement.key_of(topic) != place or topic in keyspace.topics.dropped or keyspace.is_served(topic):
            return False
        if any(each.log.topic == topic for each in self._keyspace.spare.values()):
            return False
        if placement.has_peers and placement.leader_of(topic) != placement.own_id:
            return True  # the command finds out by whom
        stream = self._keyspace.new_stream(topic)
        try:
            await self._keyspace.read(stream, set())
        except (KernelError, OSError) as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {topic} cannot be read: {error}") from error
        except ApiError as error:
            if self._keyspace.placement.has_peers and error.code in _MOVING:
                await self._broker.timer.sleep(MOVING_POLL_MS)
                return True
            raise
        self._keyspace.unread.pop(place, None)
        self._keyspace.place_stream(stream)
        return self._keyspace.has_spare(place) or place[1] in self._keyspace.databases[place[0]]
