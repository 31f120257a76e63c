"""Keys and the streams behind them, in every database.

    key  -> Stream            while the key exists
    key  -> spare Stream      a topic without a key: one that was just made, or whose key was deleted; used again

A topic is made before a command that needs it runs; deleting a key is a record in its topic, so both keep the commands
themselves from waiting. Topics without a key are deleted after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.adoption import Adoption
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.group import FREED_AT_ONCE, Group
from ottla.gateways.redis.key_copies import KeyCopies
from ottla.gateways.redis.key_opening import KeyOpening
from ottla.gateways.redis.key_topics import KeyTopics
from ottla.gateways.redis.node_cache import NodeCache
from ottla.gateways.redis.placement import COPIES, ElsewhereError, Place, Placement
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_log import Flush, StreamLog
from ottla.gateways.redis.stream_records import Began, Dropped, Ended
from ottla.metadata.image.image import topic_resource
from ottla.model import redis_key
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.runtime.turns import next_turn
from ottla.settings.topic_settings import REDIS_KEY

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.config import RedisConfig
    from ottla.gateways.redis.long_work import Work

logger = logging.getLogger(__name__)

SPARE_MS: Final = 60_000
"""For so long the topic of a key that was deleted is kept, in case the key is used again."""
FREE_MS: Final = 30_000
EXPIRY_LOOK_MS: Final = 24 * 3600 * 1000
KEY_BYTES_MAX: Final = 16 * 1024


class TopicMissingError(Exception):
    """A command needs a stream that has no topic yet."""

    def __init__(self, place: Place) -> None:
        super().__init__("a stream has no topic yet")
        self.place = place


class LoadingError(Exception):
    """A stream is being read from its log."""


class HeldError(LoadingError):
    """A stream is held by a command that is not over (`ottla.gateways.redis.long_work`)."""

    def __init__(self, work: Work) -> None:
        super().__init__("a command is not over")
        self.work = work


class UnwrittenError(LoadingError):
    """A command waits until changes are on disk."""

    def __init__(self, flushes: set[Flush]) -> None:
        super().__init__("changes are not on disk yet")
        self.flushes = flushes


class Keyspace:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker, config: RedisConfig) -> None:
        self._broker = broker
        self._config = config
        self.limits = NodeLimits(config.node_bytes_max, config.node_entries_max)
        self.databases: list[dict[bytes, Stream]] = [{} for _ in range(config.databases)]
        self.cache = NodeCache(config.cache_bytes)
        self.changes = 0
        """How many changes there were, as INFO counts them."""
        self.spare: dict[Place, Stream] = {}
        """Streams of topics without a key."""
        self._held: dict[Stream, Work] = {}
        """Streams that a command changes which is not over: nobody else sees them, and nothing of them is written."""
        self._dirty: list[Stream] = []
        self._is_flushing = False
        self._failed: dict[Place, Stream] = {}
        self._leaving: dict[Place, Flush] = {}
        """Keys that are gone by changes which are not on disk yet: a crash would bring them back."""
        self.unread: dict[Place, str] = {}
        """Topics of keys that could not be read, on a broker that is alone."""
        self.placement = Placement(broker)
        self.topics = KeyTopics(broker, config, self.placement)
        self.topics.is_of_other = lambda place, stream: self.databases[place[0]].get(place[1], stream) is not stream
        self.opening = KeyOpening(broker, self)
        self.copies = KeyCopies(self)
        self._began_ms = broker.clock.now_ms()
        self.awaited: set[Flush] = set()
        """Changes that the answers of the commands under way rest on."""
        self.is_holding = False
        """Whether changes are not to be written yet, for a transaction is not over."""
        self.on_change: Callable[[int, bytes], None] = lambda database, key: None
        """Told of keys whose streams have changed, for clients that wait for them."""
        self.on_groups: Callable[[Stream], None] = lambda stream: None
        """Told of streams that may have other groups than before."""
        self.serve_waiters: Callable[[], None] = lambda: None
        """Lets these clients look again."""
        self.until_free: Callable[[], Awaitable[None]] = _at_once
        """Returns when no transaction is under way."""

    # --- asking -----------------------------------------------------------------------------------------------------

    def find(self, database: int, key: bytes, now_ms: int) -> Stream | None:
        """The stream of a key; one whose time is up is deleted. Raises TopicMissingError for one that is to be read
        first, ElsewhereError for one of another broker.
        """
        stream = self.databases[database].get(key)
        if stream is None:
            if self._failed and (database, key) in self._failed:
                raise LoadingError
            if self._leaving and (database, key) in self._leaving:
                self.awaited.add(self._leaving[database, key])
            self._require_here((database, key))
            return None
        if not stream.log.is_current:
            self._lose((database, key), stream)
            self._require_here((database, key))
            return None
        if self._held and stream in self._held:
            raise HeldError(self._held[stream])
        if stream.expires_ms is not None and stream.expires_ms <= now_ms:
            self.delete(stream, now_ms)
            return None
        if stream.adopted_to < stream.log.adopted_by:
            raise LoadingError
        if stream.log.latest is not None:
            self.awaited.add(stream.log.latest)
        return stream

    def topic_of(self, database: int, key: bytes) -> str:
        """The topic of a key: the one that it has, or is to get."""
        place = database, key
        stream = self.databases[database].get(key) or self.spare.get(place)
        if stream is not None:
            topic: str = stream.log.topic
            return topic
        return self.unread.get(place) or self.placement.topic_of(place) or redis_key.topic_of_key(database, key)

    def owner_of(self, place: Place) -> int | None:
        """The broker that leads a key, NO_LEADER for nobody; None for a key that there is not."""
        if not self.placement.has_peers or place[1] in self.databases[place[0]]:
            return self.placement.own_id
        return self.placement.owner_of(place)

    def version_of(self, place: Place, now_ms: int) -> bytes:
        """What is another one when WATCH is to see that a key has changed. Raises as `find`."""
        stream = self.find(*place, now_ms) or self.spare.get(place)  # a key may have been there meanwhile
        return b"" if stream is None or not stream.modified else self._token(stream, stream.modified)

    def news_of(self, place: Place, now_ms: int) -> bytes:
        """The same of what clients wait for. Raises as `find`."""
        stream = self.find(*place, now_ms)
        return b"" if stream is None else self._token(stream, stream.news)

    def _token(self, stream: Stream, number: int) -> bytes:
        return b"%d-%d-%d" % (self._began_ms, stream.identity, number)

    def make(self, database: int, key: bytes, now_ms: int) -> Stream:
        """A new, empty stream for a key that does not exist. Raises TopicMissingError, RedisError."""
        if len(key) > KEY_BYTES_MAX:
            raise RedisError(f"ERR keys of more than {KEY_BYTES_MAX} bytes are not served")
        place = database, key
        if not self.has_spare(place):
            raise TopicMissingError(place)
        stream = self.databases[database][key] = self.spare.pop(place)
        self.changed(stream)
        stream.mark(now_ms, Began(database, key))
        self._tell_key(stream)
        return stream

    def _require_here(self, place: Place) -> None:
        """A key is not among those that are served: see whether it is one that is to be read, or another broker's."""
        if self.unread and place in self.unread:
            raise TopicMissingError(place)
        topic = self.placement.topic_of(place)
        if topic is None or topic in self.topics.dropped:
            return
        leader = self.placement.leader_of(topic)
        if leader != self.placement.own_id:
            raise ElsewhereError(place, leader)
        if not self.has_spare(place):
            if not self.is_served(topic):
                raise TopicMissingError(place)
            return
        spare = self.spare[place]
        if spare.adopted_to < spare.log.adopted_by and not spare.is_dropped:
            raise LoadingError  # another protocol may have written what makes the key

    def _leave(self, place: Place, flush: Flush | None) -> None:
        """There is no such key any more, once changes are on disk."""

        def is_gone() -> None:
            if self._leaving.get(place) is flush:
                del self._leaving[place]

        if flush is not None and not flush.is_done:
            self._leaving[place] = flush
            flush.waiters.append(is_gone)

    def _tell_key(self, stream: Stream) -> Flush | None:
        """Among several brokers the setting of a topic says which key it has. Done when all know that."""
        place = stream.database, stream.key or b""
        if self.placement.has_peers and self._place_to_be(stream) != place:
            told = self.topics.tell_key(stream, place)
            self.awaited.add(told)
            return told
        return None

    def live(self, database: int, now_ms: int) -> Iterator[tuple[bytes, Stream]]:
        """The keys of a database that this broker leads; those whose time is up are deleted. Raises as `find`."""
        for place, _ in self.placement.led_here():
            if place[0] == database and place[1] not in self.databases[database]:
                self.find(*place, now_ms)
        for key, stream in tuple(self.databases[database].items()):
            if self.find(database, key, now_ms) is not None:
                yield key, stream

    # --- changing ---------------------------------------------------------------------------------------------------

    def changed(self, stream: Stream, count: int = 1) -> None:
        """A stream has changed so often: clients may wait for that."""
        self.changes += count
        stream.news += count
        if stream.key is not None:
            self.on_change(stream.database, stream.key)

    def delete(self, stream: Stream, now_ms: int) -> None:
        """A key goes."""
        assert stream.key is not None
        database, key = stream.database, stream.key
        self.databases[database].pop(key)
        self.changed(stream)
        self.end(stream, now_ms)
        self._leave((database, key), stream.log.latest)
        self.on_groups(stream)
        self.keep_spare(stream)

    def end(self, stream: Stream, now_ms: int) -> None:
        groups = list(stream.groups.values())
        stream.mark(now_ms, Ended())
        stream.log.ended()
        self.dismantle(groups)

    def dismantle(self, groups: Iterable[Group]) -> None:
        """Groups are gone: free what they have a part at a time."""
        gone = list(groups)
        if sum(len(each.pending) for each in gone) > FREED_AT_ONCE:
            self._broker.tasks.spawn(_dismantle(gone), "redis-free-groups")

    def revive(self, stream: Stream, now_ms: int) -> bool:
        """Another protocol has written to a topic without a key: make the key anew; returns whether there is one."""
        place = self._place_to_be(stream)
        if place is None or self.spare.get(place) is not stream or place[1] in self.databases[place[0]]:
            return False
        self.databases[place[0]][place[1]] = self.spare.pop(place)
        stream.mark(now_ms, Began(*place))
        self._tell_key(stream)
        return True

    def expire_later(self, stream: Stream, at_ms: int) -> None:
        """Have a key go at a time, even if nobody asks for it."""

        def expire() -> None:
            now_ms = self._broker.clock.now_ms()
            if stream.key is not None and stream.expires_ms == at_ms and stream.log.is_current:
                if at_ms > now_ms:
                    self.expire_later(stream, at_ms)
                elif stream in self._held:
                    self._broker.tasks.spawn(self._expire_freed(stream, at_ms), "redis-expire")
                else:
                    self.find(stream.database, stream.key, now_ms)

        left_ms = at_ms - self._broker.clock.now_ms()
        self._broker.timer.schedule(min(max(left_ms, 0) + 1, EXPIRY_LOOK_MS), expire)

    async def _expire_freed(self, stream: Stream, at_ms: int) -> None:
        await self._held[stream].until_over()
        self.expire_later(stream, at_ms)

    def rename(self, stream: Stream, database: int, key: bytes, now_ms: int) -> None:
        """A stream is the value of another key from now on, in place of what that had."""
        assert stream.key is not None
        before = self.databases[database].pop(key, None)
        replaced = (self.placement.topic_of((database, key)) or "") if before is None else before.log.topic
        if replaced == stream.log.topic or self.topics.place_told(replaced) not in (None, (database, key)):
            replaced = ""  # by its setting alone it has the key
        source = stream.database, stream.key
        self.databases[stream.database].pop(stream.key)
        self.changed(stream)
        self.databases[database][key] = stream
        stream.mark(now_ms, Began(database, key, replaced))
        self.changed(stream)
        self._leave(source, self._tell_key(stream) or stream.log.latest)
        if before is not None:
            self.end(before, now_ms)
            self.on_groups(before)
            if self.placement.has_peers:
                self.drop(before)  # two topics must not say that they have one key
            else:
                self.keep_spare(before)

    def keep_spare(self, stream: Stream) -> None:
        place = self._place_to_be(stream)
        if place is None or place in self.spare:
            self.drop(stream)
        else:
            self.spare[place] = stream
            version = stream.version
            self._broker.timer.schedule(SPARE_MS, lambda: self._spare_over(place, stream, version))
            if place[0] < len(self.databases):
                stream.log.adoption.watch()

    def _place_of_topic(self, stream: Stream) -> Place | None:
        return self.placement.key_of(stream.log.topic)

    def _place_to_be(self, stream: Stream) -> Place | None:
        """The key of a topic once all know of its last RENAME."""
        return self.topics.place_told(stream.log.topic) or self._place_of_topic(stream)

    def _spare_over(self, place: Place, stream: Stream, version: int) -> None:
        if self.spare.get(place) is stream and stream.version == version:
            if stream.log.has_undecided or stream.log.is_held(self._broker.clock.now_ms()):
                self._broker.timer.schedule(SPARE_MS, lambda: self._spare_over(place, stream, version))
                return
            del self.spare[place]
            self.drop(stream)

    def drop(self, stream: Stream) -> None:
        """Delete a topic that no key has. The mark keeps a broker that leads it meanwhile from using it again."""
        if stream.log.is_current:
            stream.mark(self._broker.clock.now_ms(), Dropped())
            self.topics.delete_later(stream)

    def free_later(self) -> None:
        """From time to time, free the parts of logs that nothing needs any more."""

        async def free() -> None:
            try:
                for database in self.databases:
                    for stream in tuple(database.values()):
                        await self._free(stream)
                await self.copies.drop_left()
            finally:
                self.free_later()

        self._broker.timer.schedule(FREE_MS, lambda: self._broker.tasks.spawn(free(), "redis-free"))

    async def _free(self, stream: Stream) -> None:
        if not stream.log.is_current or stream in self._held:
            return
        try:
            await stream.log.free(self._broker.clock.now_ms())
        except ApiError as error:
            logger.warning("topic %s keeps records that no stream has any more: %s", stream.log.topic, error.message)

    # --- topics -----------------------------------------------------------------------------------------------------

    def has_spare(self, place: Place) -> bool:
        """Whether there is a topic for a key that does not exist."""
        stream = self.spare.get(place)
        if stream is None:
            return False
        if stream.log.is_current and self._place_to_be(stream) == place:
            return True
        del self.spare[place]
        if stream.log.is_current:  # it has another key than it was to have: that could not be told
            self.keep_spare(stream)
        return False

    def is_served(self, topic: str) -> bool:
        """Whether a topic is that of a key which exists here."""
        return any(stream.log.topic == topic for database in self.databases for stream in database.values())

    def serves(self, stream: Stream) -> bool:
        """Whether a stream is the value of a key here."""
        return stream.key is not None and self.databases[stream.database].get(stream.key) is stream

    def stream_of(self, topic: str) -> Stream | None:
        """The stream of a topic, if it is the value of a key here."""
        place = self.placement.key_of(topic)
        if place is not None and place[0] < len(self.databases):
            stream = self.databases[place[0]].get(place[1])
            if stream is not None and stream.log.topic == topic:
                return stream
        return next((each for some in self.databases for each in some.values() if each.log.topic == topic), None)

    def _lose(self, place: Place, stream: Stream) -> None:
        """Another broker leads the topic of a key now, or did meanwhile."""
        del self.databases[place[0]][place[1]]
        stream.log.adoption.end()
        self._note_unread(place, stream.log.topic)

    def _note_unread(self, place: Place, topic: str) -> None:
        if not self.placement.has_peers:  # among several the metadata say where a key is
            self.unread[place] = topic

    def new_stream(self, topic: str) -> Stream:
        """A stream that is to be read from a topic."""
        stream = Stream(self.limits, self._journaled)
        stream.touch = self.cache.touch
        stream.log = StreamLog(stream, topic, self._broker, self._on_failed)
        stream.log.adoption = Adoption(stream, self._broker, self)
        return stream

    async def read(self, stream: Stream, replaced: set[str]) -> None:
        """Read a stream from its log; of a topic without records of a stream see that it can be one. Raises ApiError,
        KernelError, OSError.
        """
        topic = stream.log.topic
        await stream.log.load(replaced)
        if not stream.log.was_made_elsewhere:
            return
        place = self._place_of_topic(stream)
        if place is None or place[0] >= len(self.databases):
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"topic {topic} has no key of a database that there is, {REDIS_KEY}"
            )
        if place in self.spare or place[1] in self.databases[place[0]]:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"topic {topic} has the key of another stream in {REDIS_KEY}")
        self.topics.require_fit(topic)

    async def load(self) -> None:
        """Find the streams that there are. Raises ApiError."""
        image = self._broker.image
        replaced: set[str] = set()
        found: list[Stream] = []
        for topic in image.topics():
            is_led = not self.placement.has_peers or self.placement.leader_of(topic.name) == self.placement.own_id
            if is_led and REDIS_KEY in image.config(topic_resource(topic.name)):
                stream = self.new_stream(topic.name)
                try:
                    await self.read(stream, replaced)
                except (ApiError, KernelError, OSError) as error:
                    level = logging.INFO if isinstance(error, ApiError) else logging.ERROR
                    logger.log(level, "the stream of topic %s is not served here: %s", topic.name, error)
                    place = self._place_of_topic(stream)
                    if place is not None:
                        self._note_unread(place, topic.name)
                else:
                    found.append(stream)
        # Of two that have one key, the one that was replaced by the other has not been told so before a crash.
        for stream in sorted(found, key=lambda each: each.log.topic in replaced):
            self.place_stream(stream)

    def place_stream(self, stream: Stream) -> None:
        """A stream has been read from its log."""
        self._take_back_rename(stream)
        told = self._place_of_topic(stream)
        if stream.is_dropped:
            self.drop(stream)
        elif stream.key is None or (told is not None and told[0] == COPIES):
            if stream.key is None and stream.last_id:  # a copy that was not finished
                self.end(stream, self._broker.clock.now_ms())
            self.keep_spare(stream)
        elif stream.database < len(self.databases):
            present = self.databases[stream.database].get(stream.key)
            if present is not None and present.log.topic == stream.log.topic and present.log.is_current:
                return  # read twice at the same time
            if present is not None and present.log.is_current:
                self.end(stream, self._broker.clock.now_ms())
                self.keep_spare(stream)
            else:
                self.databases[stream.database][stream.key] = stream
                stream.log.adoption.watch()
                self._tell_key(stream)
                self.on_groups(stream)
                if stream.expires_ms is not None:
                    self.expire_later(stream, stream.expires_ms)

    def _take_back_rename(self, stream: Stream) -> None:
        """A RENAME that was not answered before a crash did not happen where another topic has the key by now."""
        before = self._place_of_topic(stream)
        if not self.placement.has_peers or stream.key is None or before in (None, (stream.database, stream.key)):
            return
        assert before is not None
        if self.topics.rival_of((stream.database, stream.key), stream.log.topic) is not None:
            stream.mark(self._broker.clock.now_ms(), Began(*before))

    # --- writing ----------------------------------------------------------------------------------------------------

    def _journaled(self, stream: Stream) -> None:
        self.awaited.add(stream.log.journal_began())
        self._dirty.append(stream)
        self._begin_flush()

    def _begin_flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._broker.defer(self._flush_soon)

    def _flush_soon(self) -> None:
        self._is_flushing = False
        if not self.is_holding:
            self.flush()

    def flush(self) -> None:
        """Write what has changed."""
        dirty, self._dirty = self._dirty, []
        for stream in dirty:
            if stream in self._held:
                self._dirty.append(stream)
            elif stream.journal:
                stream.log.flush()
        self.cache.trim()

    def hold(self, stream: Stream, work: Work) -> None:
        """A command on a stream is not over: others wait, and nothing of it is written."""
        self._held[stream] = work

    def let_go(self, stream: Stream) -> None:
        """The command is over."""
        del self._held[stream]
        self._begin_flush()

    def is_free(self, stream: Stream) -> bool:
        """Whether no transaction and no command on a stream is under way."""
        return not self.is_holding and stream not in self._held

    async def until_free_of(self, stream: Stream) -> None:
        """Wait until no transaction and no command on a stream is under way."""
        await self.until_free()
        while stream in self._held:
            await self._held[stream].until_over()
            await self.until_free()

    def _on_failed(self, stream: Stream) -> None:
        """Changes were not written: the stream is what its log says."""
        if stream.key is None or self.databases[stream.database].get(stream.key) is not stream:
            return
        place = stream.database, stream.key
        del self.databases[stream.database][stream.key]
        stream.log.adoption.end()
        self._failed[place] = stream
        self._broker.tasks.spawn(self._reload(place, stream.log.topic), "redis-reload")

    async def _reload(self, place: Place, topic: str) -> None:
        stream = self.new_stream(topic)
        try:
            await self.read(stream, set())
        except (ApiError, KernelError, OSError):
            self._note_unread(place, topic)
        else:
            self.place_stream(stream)
        finally:
            self._failed.pop(place, None)


async def _dismantle(groups: list[Group]) -> None:
    for group in groups:
        for _ in group.dismantle():
            await next_turn()


async def _at_once() -> None:
    """Nobody holds anything up."""
