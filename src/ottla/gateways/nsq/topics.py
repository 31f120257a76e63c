"""The topics behind NSQ topics: made when they are first named, and written to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.broker import Broker
from ottla.gateways.nsq.limits import NsqLimits
from ottla.gateways.nsq.names import topic_of
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition

APPEND_TIMEOUT_MS: Final = 30_000
"""So long a publisher waits for the replicas; whether its messages are there is not known after that."""


class NsqTopics:
    """Belongs to the event loop."""

    def __init__(
        self, broker: Broker, limits: NsqLimits, on_created: Callable[[str, TopicImage], Awaitable[None]]
    ) -> None:
        """`on_created` is awaited for each topic that is new, before the first message is written to it."""
        self._on_created = on_created
        self._broker = broker
        self._configs = {"max.message.bytes": str(batch_bytes_max(limits))}
        self._next: dict[str, int] = {}
        self._creating = asyncio.Lock()
        self._new: set[str] = set()
        """Topics to which nothing is written yet: they may be there, but are not ready."""

    async def ensure(self, principal: Principal, name: str) -> TopicImage:
        """The topic of an NSQ topic, made if it is not there, with the broker's defaults and room for what NSQ clients
        may send. Raises ApiError.
        """
        made = topic_of(name)
        _require_of_clients(made)
        topic = self._broker.image.topic(made)
        if topic is not None and name not in self._new:
            return topic
        async with self._creating:
            topic = self._broker.image.topic(made)
            if topic is not None:
                return topic
            if not self._broker.topics.missing([made]):
                message = f"topic {made} is not there, and none are made by use"
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            return await self._create(principal, name)

    async def create(self, principal: Principal, name: str) -> TopicImage:
        """Make the topic; it may be there. Raises ApiError."""
        _require_of_clients(topic_of(name))
        async with self._creating:
            return await self._create(principal, name)

    async def _create(self, principal: Principal, name: str) -> TopicImage:
        self._new.add(name)
        try:
            return await self._create_new(principal, name)
        finally:
            self._new.discard(name)

    async def _create_new(self, principal: Principal, name: str) -> TopicImage:
        made = topic_of(name)
        created = (await self._broker.topics.create(principal, [NewTopic(made, configs=self._configs)]))[made]
        if isinstance(created, ApiError) and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise created
        topic = self._broker.image.topic(made)
        if topic is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {made} is not known here yet")
        if not isinstance(created, ApiError):
            await self._on_created(name, topic)
        return topic

    async def publish(self, principal: Principal, name: str, bodies: list[bytes], delay_ms: int = 0) -> None:
        """Append messages to one partition of a topic, where they come after a delay; they are on disk when it returns.
        Raises ApiError.
        """
        topic = await self.ensure(principal, name)
        place = TopicPartition(topic.name, self._next_partition(topic))
        values = [(None, body, ()) for body in bodies]
        if delay_ms:
            await self._broker.delayed.append(principal, place, values, delay_ms, APPEND_TIMEOUT_MS)
            return
        await self._broker.records.append(principal, place, values, APPEND_TIMEOUT_MS)

    def _next_partition(self, topic: TopicImage) -> int:
        """Each in turn."""
        turn = self._next[topic.name] = (self._next.get(topic.name, -1) + 1) % len(topic.partitions)
        return turn


def _require_of_clients(topic: str) -> None:
    """Refuse topics of coordinators, which make them as they need them. Raises ApiError."""
    if is_internal_topic(topic):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "NSQ clients do not use internal topics")


def batch_bytes_max(limits: NsqLimits) -> int:
    """The largest batch that clients may have written: a record of one byte takes twice as much as in an MPUB."""
    return 64 * 1024 + max(2 * limits.body_bytes_max, limits.message_bytes_max)
