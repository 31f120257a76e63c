"""Keys and the streams behind them, in every database.

    key  -> Stream            while the key exists
    key  -> spare Stream      a topic without a key: one that was just made, or whose key was deleted; used again

A topic is made before a command that needs it runs; deleting a key is a record in its topic, so both keep the commands
themselves from waiting. Topics without a key are deleted after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import key_names
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.node_cache import NodeCache
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_log import Flush, StreamLog
from ottla.gateways.redis.stream_records import Began, Ended
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal, broker_principal
from ottla.native.errors import KernelError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.config import RedisConfig

logger = logging.getLogger(__name__)

KEY_SETTING: Final = "redis.key"
SPARE_MS: Final = 60_000
"""For so long the topic of a key that was deleted is kept, in case the key is used again."""
FREE_MS: Final = 30_000
EXPIRY_LOOK_MS: Final = 24 * 3600 * 1000
SEGMENT_BYTES: Final = 256 * 1024 * 1024
"""Of the logs of streams: only whole segments are freed."""
NAMES_TRIED_MAX: Final = 100
KEY_BYTES_MAX: Final = 16 * 1024

Place = tuple[int, bytes]
"""Database and key."""


class TopicMissingError(Exception):
    """A command needs a stream that has no topic yet."""

    def __init__(self, place: Place) -> None:
        super().__init__("a stream has no topic yet")
        self.place = place


class LoadingError(Exception):
    """A stream is being read from its log."""


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
        self._spare: dict[Place, Stream] = {}
        self._making: dict[Place, tuple[Principal, asyncio.Task[ApiError | None]]] = {}
        self._dropped: set[str] = set()
        """Topics that are being deleted."""
        self._dirty: list[Stream] = []
        self._failed: dict[Place, Stream] = {}
        self._elsewhere: dict[Place, str] = {}
        """Topics of keys that another broker leads, as far as that is known."""
        self.awaited: set[Flush] = set()
        """Changes that the answers of the commands under way rest on."""
        self.is_holding = False
        """Whether changes are not to be written yet, for a transaction is not over."""
        self.on_change: Callable[[int, bytes], None] = lambda database, key: None
        """Told of keys whose streams have changed, for clients that wait for them."""

    # --- asking -----------------------------------------------------------------------------------------------------

    def find(self, database: int, key: bytes, now_ms: int) -> Stream | None:
        """The stream of a key; one whose time is up is deleted."""
        stream = self.databases[database].get(key)
        if stream is None:
            if self._failed and (database, key) in self._failed:
                raise LoadingError
            if self._elsewhere and (database, key) in self._elsewhere:
                raise TopicMissingError((database, key))
            return None
        if not stream.log.is_current:
            self._lose(stream)
            raise TopicMissingError((database, key))
        if stream.expires_ms is not None and stream.expires_ms <= now_ms:
            self.delete(stream, now_ms)
            return None
        if stream.log.latest is not None:
            self.awaited.add(stream.log.latest)
        return stream

    def topic_of(self, database: int, key: bytes) -> str:
        """The topic of a key: the one that it has, or is to get."""
        stream = self.databases[database].get(key) or self._spare.get((database, key))
        if stream is not None:
            topic: str = stream.log.topic
            return topic
        return self._elsewhere.get((database, key)) or key_names.topic_of_key(database, key)

    def make(self, database: int, key: bytes, now_ms: int) -> Stream:
        """A new, empty stream for a key that does not exist. Raises TopicMissingError, RedisError."""
        if len(key) > KEY_BYTES_MAX:
            raise RedisError(f"ERR keys of more than {KEY_BYTES_MAX} bytes are not served")
        stream = self._spare.pop((database, key), None)
        if stream is None:
            raise TopicMissingError((database, key))
        self.databases[database][key] = stream
        self.changed(stream)
        stream.mark(now_ms, Began(database, key))
        return stream

    def live(self, database: int, now_ms: int) -> Iterator[tuple[bytes, Stream]]:
        """The keys of a database; those whose time is up are deleted."""
        for key, stream in tuple(self.databases[database].items()):
            if self.find(database, key, now_ms) is not None:
                yield key, stream

    # --- changing ---------------------------------------------------------------------------------------------------

    def changed(self, stream: Stream) -> None:
        """A stream has changed: clients may wait for that."""
        self.changes += 1
        if stream.key is not None:
            self.on_change(stream.database, stream.key)

    def delete(self, stream: Stream, now_ms: int) -> None:
        """A key goes."""
        assert stream.key is not None
        database, key = stream.database, stream.key
        self.databases[database].pop(key)
        self.changed(stream)
        stream.mark(now_ms, Ended())
        self._keep_spare(stream)

    def expire_later(self, stream: Stream, at_ms: int) -> None:
        """Have a key go at a time, even if nobody asks for it."""

        def expire() -> None:
            now_ms = self._broker.clock.now_ms()
            if stream.key is not None and stream.expires_ms == at_ms:
                if at_ms > now_ms:
                    self.expire_later(stream, at_ms)
                else:
                    self.find(stream.database, stream.key, now_ms)

        left_ms = at_ms - self._broker.clock.now_ms()
        self._broker.timer.schedule(min(max(left_ms, 0) + 1, EXPIRY_LOOK_MS), expire)

    def rename(self, stream: Stream, database: int, key: bytes, now_ms: int) -> None:
        """A stream is the value of another key from now on, in place of what that had."""
        assert stream.key is not None
        before = self.databases[database].pop(key, None)
        replaced = "" if before is None else before.log.topic
        self.databases[stream.database].pop(stream.key)
        self.changed(stream)
        self.databases[database][key] = stream
        stream.mark(now_ms, Began(database, key, replaced))
        self.changed(stream)
        if before is not None:
            before.mark(now_ms, Ended())
            self._keep_spare(before)

    def _keep_spare(self, stream: Stream) -> None:
        place = self._place_of_topic(stream)
        if place is None or place in self._spare:
            self._drop(stream)
        else:
            self._spare[place] = stream
            self._broker.timer.schedule(SPARE_MS, lambda: self._spare_over(place, stream, stream.version))

    def _place_of_topic(self, stream: Stream) -> Place | None:
        return self._key_of_topic(stream.log.topic)

    def _key_of_topic(self, topic: str) -> Place | None:
        return key_names.key_of_setting(self._broker.image.config(topic_resource(topic)).get(KEY_SETTING, ""))

    def _spare_over(self, place: Place, stream: Stream, version: int) -> None:
        if self._spare.get(place) is stream and stream.version == version:
            del self._spare[place]
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        self._dropped.add(stream.log.topic)
        self._broker.tasks.spawn(self._delete_topic(stream), "redis-delete-topic")

    async def _delete_topic(self, stream: Stream) -> None:
        topic = stream.log.topic
        try:
            await stream.log.settled()
            principal = broker_principal(self._broker.config.node_id)
            (outcome,) = await self._broker.topics.delete(principal, [topic])
        finally:
            self._dropped.discard(topic)
        if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            logger.warning("topic %s, which no key has any more, was not deleted: %s", topic, outcome.message)

    def free_later(self) -> None:
        """From time to time, free the parts of logs that nothing needs any more."""

        async def free() -> None:
            try:
                for database in self.databases:
                    for stream in tuple(database.values()):
                        await self._free(stream)
            finally:
                self.free_later()

        self._broker.timer.schedule(FREE_MS, lambda: self._broker.tasks.spawn(free(), "redis-free"))

    async def _free(self, stream: Stream) -> None:
        try:
            await stream.log.free(self._broker.clock.now_ms())
        except ApiError as error:
            logger.warning("topic %s keeps records that no stream has any more: %s", stream.log.topic, error.message)

    # --- topics -----------------------------------------------------------------------------------------------------

    async def make_topic(self, place: Place, principal: Principal) -> None:
        """Have a topic for a key, made by somebody if it has to be made. Raises ApiError."""
        while True:
            if place not in self._making:
                making = self._broker.tasks.spawn(self._try_to_make_topic(place, principal), "redis-make-topic")
                self._making[place] = principal, making
                making.add_done_callback(lambda _: self._making.pop(place, None))
            maker, making = self._making[place]
            refusal = await asyncio.shield(making)
            if refusal is None:
                return
            if maker == principal:
                raise refusal

    async def _try_to_make_topic(self, place: Place, principal: Principal) -> ApiError | None:
        """Returns why there is none, which is no crash of ours."""
        try:
            await self._make_topic(place, principal)
        except ApiError as refusal:
            return refusal
        return None

    async def _make_topic(self, place: Place, principal: Principal) -> None:
        if place in self._spare or place[1] in self.databases[place[0]]:
            return
        name = key_names.topic_of_key(*place)
        configs: dict[str, str | None] = {
            KEY_SETTING: key_names.setting_of_key(*place),
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(SEGMENT_BYTES),
            "max.message.bytes": str(self._config.record_bytes_max),
        }
        for number in range(NAMES_TRIED_MAX):
            tried = name if not number else f"{name}-{number}"
            if await self._adopt(place, tried):
                return
            topic = NewTopic(tried, assignments=[(0, self._replicas())], configs=configs)
            outcome = (await self._broker.topics.create(principal, [topic]))[tried]
            if not isinstance(outcome, ApiError):
                stream = self._stream(tried)
                stream.log.open()
                self._elsewhere.pop(place, None)
                self._spare[place] = stream
                return
            if outcome.code not in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION):
                raise outcome
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"too many topics have names like {name}")

    def _replicas(self) -> list[int]:
        """Where the topic of a new key is: here first, so that this broker leads it."""
        own_id = self._broker.config.node_id
        others = sorted(self._broker.image.active_brokers() - {own_id})
        return [own_id, *others[: self._config.replication_factor - 1]]

    async def _adopt(self, place: Place, topic: str) -> bool:
        """Serve a topic that was made for the key, and that this broker did not know of or did not lead."""
        topics = {topic, self._elsewhere.get(place, topic)} - {each.log.topic for each in self._spare.values()}
        for each in topics:
            if self._key_of_topic(each) != place or each in self._dropped or self._is_served(each):
                continue
            stream = self._stream(each)
            try:
                await stream.log.load(set())
            except (KernelError, OSError) as error:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {each} cannot be read: {error}") from error
            except ApiError as error:
                if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    message = f"{self._leader_of(each)} leads the topic of this key; ask that one"
                    raise ApiError(error.code, message) from error
                raise
            self._elsewhere.pop(place, None)
            self._place(stream)
            if place in self._spare or place[1] in self.databases[place[0]]:
                return True
        return False

    def _leader_of(self, topic: str) -> str:
        """The broker that leads a topic, in words."""
        partition = self._broker.image.partition(topic, 0)
        return "another broker" if partition is None or partition.leader < 0 else f"broker {partition.leader}"

    def _is_served(self, topic: str) -> bool:
        return any(stream.log.topic == topic for database in self.databases for stream in database.values())

    def _lose(self, stream: Stream) -> None:
        """Another broker leads the topic of a key now, or did meanwhile."""
        assert stream.key is not None
        del self.databases[stream.database][stream.key]
        self._elsewhere[stream.database, stream.key] = stream.log.topic

    def _stream(self, topic: str) -> Stream:
        stream = Stream(self.limits, self._journaled)
        stream.touch = self.cache.touch
        stream.log = StreamLog(stream, topic, self._broker, self._on_failed)
        return stream

    async def load(self) -> None:
        """Find the streams that there are. Raises ApiError."""
        image = self._broker.image
        replaced: set[str] = set()
        found: list[Stream] = []
        for topic in image.topics():
            if KEY_SETTING in image.config(topic_resource(topic.name)):
                stream = self._stream(topic.name)
                try:
                    await stream.log.load(replaced)
                except (ApiError, KernelError, OSError) as error:
                    is_elsewhere = isinstance(error, ApiError)
                    level = logging.INFO if is_elsewhere else logging.ERROR
                    logger.log(level, "the stream of topic %s is not served here: %s", topic.name, error)
                    place = self._place_of_topic(stream)
                    if place is not None:
                        self._elsewhere[place] = topic.name
                else:
                    found.append(stream)
        # Of two that have one key, the one that was replaced by the other has not been told so before a crash.
        for stream in sorted(found, key=lambda each: each.log.topic in replaced):
            self._place(stream)

    def _place(self, stream: Stream) -> None:
        """A stream has been read from its log."""
        if stream.key is None:
            self._keep_spare(stream)
        elif stream.database < len(self.databases):
            if stream.key in self.databases[stream.database]:
                stream.mark(self._broker.clock.now_ms(), Ended())
                self._keep_spare(stream)
            else:
                self.databases[stream.database][stream.key] = stream
                if stream.expires_ms is not None:
                    self.expire_later(stream, stream.expires_ms)

    # --- writing ----------------------------------------------------------------------------------------------------

    def _journaled(self, stream: Stream) -> None:
        self.awaited.add(stream.log.journal_began())
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush_soon)
        self._dirty.append(stream)

    def _flush_soon(self) -> None:
        if not self.is_holding:
            self.flush()

    def flush(self) -> None:
        """Write what has changed."""
        dirty, self._dirty = self._dirty, []
        for stream in dirty:
            if stream.journal:
                stream.log.flush()
        self.cache.trim()

    def _on_failed(self, stream: Stream) -> None:
        """Changes were not written: the stream is what its log says."""
        if stream.key is None or self.databases[stream.database].get(stream.key) is not stream:
            return
        place = stream.database, stream.key
        del self.databases[stream.database][stream.key]
        self._failed[place] = stream
        self._broker.tasks.spawn(self._reload(place, stream.log.topic), "redis-reload")

    async def _reload(self, place: Place, topic: str) -> None:
        stream = self._stream(topic)
        try:
            await stream.log.load(set())
        except (ApiError, KernelError, OSError):
            self._elsewhere[place] = topic
        else:
            self._place(stream)
        finally:
            self._failed.pop(place, None)
