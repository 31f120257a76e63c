"""The topics of keys: made and deleted by way of the controller, and told which key they have after a RENAME."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.gateways.redis.placement import Place, Placement
from ottla.gateways.redis.stream_log import Flush, are_lost
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model import redis_key
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal, broker_principal
from ottla.settings.topic_settings import REDIS_KEY

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.config import RedisConfig
    from ottla.gateways.redis.stream import Stream

logger = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 256 * 1024 * 1024
"""Of the logs of streams: only whole segments are freed."""
VISIBLE_MS: Final = 10_000
"""For so long is waited until this broker knows what the controller has decided."""
LOOK_MS: Final = 5
_TAKEN: Final = (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION)


class _Move(NamedTuple):
    """A topic is to be told which key it has."""

    place: Place
    stream: Stream
    logged: Flush | None
    """With the change that says so in the log of the stream."""
    waiting: list[Flush]


class KeyTopics:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker, config: RedisConfig, placement: Placement) -> None:
        self._broker = broker
        self._config = config
        self._placement = placement
        self.dropped: set[str] = set()
        """Topics that are being deleted."""
        self.until_known: Callable[[], Awaitable[None]] = _nobody
        """Returns when the other brokers know what this one knows."""
        self.is_of_other: Callable[[Place, Stream], bool] = lambda place, stream: False
        """Whether a key has another stream here than that one by now."""
        self._told: dict[str, _Move] = {}

    async def create(self, place: Place, name: str, principal: Principal) -> bool:
        """Have somebody make a topic for a key; returns whether it was made, False where there is one of this name.

        Either way it is known here when this returns, if it can be known. Raises ApiError.
        """
        configs: dict[str, str | None] = {
            REDIS_KEY: redis_key.setting_of_key(*place),
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(SEGMENT_BYTES),
            "max.message.bytes": str(self._config.record_bytes_max),
        }
        topic = NewTopic(name, assignments=[(0, self._replicas())], configs=configs)
        outcome = (await self._broker.topics.create(principal, [topic]))[name]
        is_made = not isinstance(outcome, ApiError)
        if isinstance(outcome, ApiError):
            if outcome.code not in _TAKEN:
                raise outcome
            if outcome.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
                return False
        if not await self._until(lambda: self._is_known(name, is_led_here=is_made)) and is_made:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} was made, and is not led here yet")
        if is_made:
            await self.until_known()
        return is_made

    def require_fit(self, name: str) -> None:
        """Refuse to make a stream of a topic that others have made and that cannot be one. Raises ApiError."""
        topic = self._broker.image.topic(name)
        if topic is not None and len(topic.partitions) != 1:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"topic {name} has several partitions, and a stream has one")
        if "compact" in self._broker.replicas.get(name, 0).log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"topic {name} is compacted (cleanup.policy), and a stream keeps all entries"
            )

    def _is_known(self, name: str, *, is_led_here: bool) -> bool:
        if self._broker.image.topic(name) is None:
            return False
        partition = self._broker.replicas.find(name, 0)
        return not is_led_here or (partition is not None and partition.is_leader)

    async def _until(self, is_so: Callable[[], bool]) -> bool:
        for _ in range(VISIBLE_MS // LOOK_MS):
            if is_so():
                return True
            await self._broker.timer.sleep(LOOK_MS)
        return is_so()

    def _replicas(self) -> list[int]:
        """Where the topic of a new key is: here first, so that this broker leads it."""
        others = self._placement.others
        return [self._placement.own_id, *others[: self._config.replication_factor - 1]]

    def rival_of(self, place: Place, name: str) -> str | None:
        """Another topic of the same key, which came to it by a RENAME meanwhile; none that is about to be told another
        key.
        """
        leaving = (topic for topic, move in self._told.items() if move.place != place)
        return self._placement.another_topic_of(place, {name, *self.dropped, *leaving})

    def delete_later(self, stream: Stream) -> None:
        """Delete the topic of a stream whose last change says so, once that is on disk."""
        topic = stream.log.topic
        self.dropped.add(topic)
        self._broker.tasks.spawn(self._dropping(topic, self._delete(stream)), "redis-delete-topic")

    async def delete_unused(self, name: str) -> None:
        """Delete a topic that was made for nothing."""
        self.dropped.add(name)
        await self._dropping(name, self._delete_now(name))

    async def _dropping(self, topic: str, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self.dropped.discard(topic)

    async def _delete(self, stream: Stream) -> None:
        flush: Flush | None = stream.log.latest
        await stream.log.settled()
        if flush is not None and flush.error is not None:
            logger.info("topic %s is led elsewhere now, and not deleted", stream.log.topic)
            return
        await self._delete_now(stream.log.topic)

    async def _delete_now(self, topic: str) -> None:
        principal = broker_principal(self._placement.own_id)
        try:
            await self._broker.cluster_topics.delete(principal, topic)
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                logger.warning("topic %s, which no key has any more, was not deleted: %s", topic, error.message)
                return
        await self._until(lambda: self._broker.image.topic(topic) is None)

    def tell_key(self, stream: Stream, place: Place) -> Flush:
        """Have the setting of a topic say which key it has now; the flush is done when this broker knows it."""
        flush = Flush()
        flush.undecided = 1
        topic: str = stream.log.topic
        known = self._told.get(topic)
        self._told[topic] = _Move(place, stream, stream.log.latest, [*(known.waiting if known else ()), flush])
        if known is None:
            self._broker.tasks.spawn(self._tell(topic), "redis-tell-key")
        return flush

    def place_told(self, topic: str) -> Place | None:
        """The key that the setting of a topic is about to say; None where nothing is under way."""
        told = self._told.get(topic)
        return None if told is None else told.place

    async def _tell(self, topic: str) -> None:
        while True:
            move = self._told[topic]
            error = await self._try_to_tell(topic, move)
            if self._told[topic][:2] == move[:2]:
                move = self._told.pop(topic)
                break
        for flush in move.waiting:
            flush.decide(error)

    def _moves_with(self, topic: str) -> tuple[dict[str, _Move], str | None]:
        """The topics that are told together with one: that which has its new key by its setting still, but moves on,
        that which has the new key of that one, and so on; and the topic at the end that is replaced, if there is one.
        """
        moves = {topic: self._told[topic]}
        while True:
            place = moves[topic].place
            rival = self._placement.another_topic_of(place, {*moves, *self.dropped})
            if rival is None or rival not in self._told or self._told[rival].place == place:
                return moves, rival
            moves[rival] = self._told[rival]
            topic = rival

    async def _try_to_tell(self, topic: str, move: _Move) -> str | None:
        """The log says it first: a setting that is ahead of the log would be set back, and the topic that had the key
        be gone. That one loses the key in the same step, so that one topic has it at any time.
        """
        place = move.place
        while True:
            moves, replaced = self._moves_with(topic)
            logged = {each.logged for each in moves.values() if each.logged is not None and not each.logged.is_done}
            if not logged:
                break
            await are_lost(logged)
        if self.is_of_other(place, move.stream) or self._broker.image.topic(topic) is None:
            return None
        for name, each in moves.items():
            if each.logged is not None and each.logged.error is not None:
                return each.logged.error
            if not each.stream.log.is_current:
                return f"topic {name} is led elsewhere now"
        principal = broker_principal(self._placement.own_id)
        values: dict[str, str | None] = {name: redis_key.setting_of_key(*each.place) for name, each in moves.items()}
        if replaced is not None:
            values[replaced] = None
        try:
            await self._broker.cluster_topics.configure(principal, REDIS_KEY, values)
        except ApiError as error:
            logger.warning("topic %s does not say which key it has: %s", topic, error.message)
            return error.message
        await self._until(
            lambda: self._placement.key_of(topic) == place or self._broker.image.topic(topic) is None  # deleted since
        )
        if replaced is not None:
            await self._delete_now(replaced)
        rival = self.rival_of(place, topic)
        is_here = self._told[topic].place == place and not self.is_of_other(place, move.stream)
        if rival is not None and is_here and topic not in self.dropped and rival not in self._told:
            await self._delete_now(rival)  # made while the key was on its way here: the RENAME takes its place
        await self.until_known()
        return None


async def _nobody() -> None:
    """There are no other brokers."""
