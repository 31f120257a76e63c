"""The keys and topics of copies: where a copy is written, and how a key comes to have it.

a key that there is not    its topic is the copy's, and has the key with the last record
a key that there is        another topic is made beside it, which takes the key once the copy is whole
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.gateways.redis.key_opening import NAMES_TRIED_MAX
from ottla.gateways.redis.placement import COPIES, Place
from ottla.model import redis_key
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.native.errors import KernelError

if TYPE_CHECKING:
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.gateways.redis.stream import Stream

logger = logging.getLogger(__name__)


class KeyCopies:
    """Of one keyspace. Belongs to the event loop."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._making: set[str] = set()  # topics of copies that take the place of others

    def take_spare(self, place: Place) -> Stream | None:
        """The topic that there is for a key that does not exist, as its value from now on."""
        keyspace = self._keyspace
        if not keyspace.has_spare(place):
            return None
        stream = keyspace.databases[place[0]][place[1]] = keyspace.spare.pop(place)
        return stream

    async def make_beside(self, place: Place) -> Stream:
        """A topic and a stream for a copy that takes a key from another topic later. Raises ApiError."""
        keyspace, own_id = self._keyspace, self._keyspace.placement.own_id
        name = redis_key.topic_of_key(*place)
        for number in range(NAMES_TRIED_MAX):
            tried = f"{name}-{number}" if number else name
            if tried in keyspace.topics.dropped or tried in self._making:
                continue
            self._making.add(tried)
            # Among several brokers one topic says that it has a key; in a log on one broker the marks say it.
            told = (COPIES, f"{own_id}-{tried}".encode()) if keyspace.placement.has_peers else place
            try:
                is_made = await keyspace.topics.create(told, tried, broker_principal(own_id))
            except BaseException:
                self._making.discard(tried)
                raise
            if is_made:
                stream = keyspace.new_stream(tried)
                stream.log.open()
                return stream
            self._making.discard(tried)
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"too many topics have names like {name}")

    def put(self, stream: Stream, place: Place, before: Stream | None, now_ms: int) -> None:
        """A copy is whole, and on disk: it is the value of a key, in place of a stream that was."""
        keyspace, (database, key) = self._keyspace, place
        keyspace.databases[database][key] = stream
        stream.begin(database, key)
        if before is not None:
            self._end(before, now_ms)
        stream.log.adoption.watch()
        keyspace.changed(stream)
        keyspace.on_groups(stream)
        if stream.expires_ms is not None:
            keyspace.expire_later(stream, stream.expires_ms)
        self._making.discard(stream.log.topic)

    def _end(self, before: Stream, now_ms: int) -> None:
        keyspace = self._keyspace
        if keyspace.topics.place_told(before.log.topic) is not None:  # it had just come to the key
            keyspace.end(before, now_ms)
            keyspace.on_groups(before)
            keyspace.drop(before)
        elif keyspace.placement.has_peers:  # its topic is gone
            groups = list(before.groups.values())
            before.log.discard()
            before.log.adoption.end()
            before.end()
            keyspace.dismantle(groups)
            keyspace.on_groups(before)
        else:
            keyspace.end(before, now_ms)
            keyspace.on_groups(before)
            keyspace.keep_spare(before)

    def drop(self, stream: Stream, place: Place, before: Stream | None) -> None:
        """A copy has failed: the key has what it had before."""
        some = self._keyspace.databases[place[0]]
        if some.get(place[1]) is stream:
            del some[place[1]]
            if before is not None:
                some[place[1]] = before
        stream.log.adoption.end()
        self._keyspace.drop(stream)
        self._making.discard(stream.log.topic)

    async def drop_left(self) -> None:
        """Brokers that led topics of copies are gone, and the copies were not finished: see that the topics go."""
        keyspace = self._keyspace
        for place, topic in tuple(keyspace.placement.led_here()) if keyspace.placement.has_peers else ():
            is_known = place in keyspace.spare or topic in self._making or topic in keyspace.topics.dropped
            if place[0] == COPIES and not is_known and not keyspace.is_served(topic):
                stream = keyspace.new_stream(topic)
                try:
                    await stream.log.load(set())
                except (ApiError, KernelError, OSError) as error:
                    logger.info("topic %s, a copy that was not finished, is not read: %s", topic, error)
                else:
                    keyspace.place_stream(stream)
