"""Has the coordinators of share groups know of the groups of streams, so that Kafka's and NSQ's tools list them.

XGROUP CREATE, or a stream that is read --> a moment later --> the group has a state in the topic, at its coordinator
XGROUP DESTROY, DEL                     --> a moment later --> it has none

The stream is the truth. A group whose name is no group id of Kafka's, or that of another kind of group, is Redis'
alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.groups.group_config import GROUP_ID_BYTES_MAX
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.stream import Stream

logger = logging.getLogger(__name__)

DELAY_MS: Final = 200
"""Groups that are gone by then are told to nobody."""
TRIES: Final = 60
RETRY_MS: Final = 1_000
_COMING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class GroupRegistry:
    """Belongs to the event loop."""

    def __init__(self, gateway: RedisGateway) -> None:
        self._gateway = gateway
        self._broker = gateway.broker
        self._principal = broker_principal(self._broker.config.node_id)
        self._told: dict[str, set[str]] = {}
        self._changed: dict[str, Stream] = {}
        self._is_running = False
        self.forgetting: set[ShareKey] = set()
        """Of which the coordinator is being told that they are gone: it asks for that in turn."""

    def note(self, stream: Stream) -> None:
        """A stream may have other groups than before."""
        topic = stream.log.topic
        if topic not in self._told and not stream.groups:
            return
        self._changed[topic] = stream
        if not self._is_running:
            self._is_running = True
            self._broker.timer.schedule(DELAY_MS, lambda: self._broker.tasks.spawn(self._run(), "redis-groups"))

    async def _run(self) -> None:
        try:
            while self._changed:
                topic, stream = next(iter(self._changed.items()))
                del self._changed[topic]
                await self._tell_all(topic, stream)
        finally:
            self._is_running = False

    async def _tell_all(self, topic: str, stream: Stream) -> None:
        image = self._broker.image.topic(topic)
        if image is None:
            self._told.pop(topic, None)
            return
        told = self._told.setdefault(topic, set())
        names = {name for name in map(group_id_of, stream.groups) if name is not None}
        for group_id in sorted((names - told) | (told - names)):
            is_there = group_id in names
            if await self._tell(group_id, image.topic_id, is_there=is_there):
                (told.add if is_there else told.discard)(group_id)
        if not told:
            del self._told[topic]

    async def _tell(self, group_id: str, topic_id: UUID, *, is_there: bool) -> bool:
        """Returns whether the coordinator knows it now."""
        error = ErrorCode.NONE
        for _ in range(TRIES):
            try:
                error = await (self._register if is_there else self._forget)(group_id, topic_id)
            except ApiError as refusal:
                error = refusal.code
            if error is ErrorCode.NONE:
                return True
            if error not in _COMING:
                break
            await self._broker.timer.sleep(RETRY_MS)
        logger.info("group %s of a stream is not told to its coordinator: %s", group_id, error.name)
        return not is_there

    async def _register(self, group_id: str, topic_id: UUID) -> ErrorCode:
        groups, principal = self._broker.cluster_share_groups, self._principal
        await self._broker.topics.ensure_internal(CONSUMER_OFFSETS_TOPIC)
        answer, found = await groups.offsets(principal, group_id, {topic_id: (0,)})
        if answer.error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) and not found:
            key = ShareKey(group_id, topic_id, 0)
            answer, begun = await groups.begin(principal, group_id, {key: UNKNOWN_OFFSET})
            if answer.error is ErrorCode.NON_EMPTY_GROUP:
                return ErrorCode.NONE  # members have it made meanwhile
            errors = [answer.error, *(each.error for each in begun.values())]
            return next((each for each in errors if each is not ErrorCode.NONE), ErrorCode.NONE)
        return answer.error

    async def _forget(self, group_id: str, topic_id: UUID) -> ErrorCode:
        key = ShareKey(group_id, topic_id, 0)
        self.forgetting.add(key)
        try:
            answer, _ = await self._broker.cluster_share_groups.delete_offsets(
                self._principal, group_id, {topic_id: (0,)}
            )
        finally:
            self.forgetting.discard(key)
        gone = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)
        return ErrorCode.NONE if answer.error in gone else answer.error


def group_id_of(name: bytes) -> str | None:
    """The group id of Kafka's that a group of Redis has; None where it can have none.

    >>> group_id_of(b"billing"), group_id_of(b"\\xff"), group_id_of(b"")
    ('billing', None, None)
    """
    if not 0 < len(name) <= GROUP_ID_BYTES_MAX:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
