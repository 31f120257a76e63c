"""The share groups behind channels: made when a channel is first read.

The first channel of a topic begins at the start of the log, a later one at its end, as in nsqd.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ottla.broker.access import Operation, ResourceType, require
from ottla.broker.broker import Broker
from ottla.broker.records import OutOfRangeError
from ottla.broker.share_partitions import Place
from ottla.gateways.nsq.names import is_valid_name
from ottla.groups.share.exchange import ShareOffsetsAnswer
from ottla.metadata.image.image import TopicImage, topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer
from ottla.settings.topic_settings import REDIS_KEY

TRIES_MS: Final = (20, 50, 100, 200, 500, *(1_000 for _ in range(20)))
"""How long to wait for the coordinator of the groups before it is asked again: it may have to read its log first."""

END_TIMEOUT_MS: Final = 5_000
"""So long a leader may take to say where a partition ends."""

GONE_MS: Final = (0, 10, 50, 200)
"""How long to wait for clients that were hung up on before it is tried again."""

_COMING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        # Members of the group or clients at other brokers are being given a start meanwhile.
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.FENCED_STATE_EPOCH,
    }
)


class Standing(Struct, frozen=True):
    """Numbers of messages of a channel: that wait to be delivered, that clients have, that wait for their time, and
    that came in since the broker served it first, with those that waited then.
    """

    depth: int
    in_flight: int
    deferred: int
    message_count: int


class NsqChannels:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._groups = broker.cluster_share_groups
        self._making = asyncio.Lock()
        self._first: dict[ShareKey, int] = {}
        """The first offset that was not done when the broker first served the channel."""

    def require_readable(self, principal: Principal, topic: TopicImage, channel: str) -> None:
        """Refuse whoever may not read a channel and settle its messages. Raises ApiError."""
        require(self._broker.authorizer, principal, Operation.READ, ResourceType.TOPIC, topic.name)
        require(self._broker.authorizer, principal, Operation.READ, ResourceType.GROUP, channel)

    async def ensure(self, principal: Principal, topic: TopicImage, channel: str) -> Sequence[Place]:
        """The partitions of a channel, which has a state in each of them when this returns. Raises ApiError."""
        self.require_readable(principal, topic, channel)
        places = [(topic.topic_id, number) for number in range(len(topic.partitions))]
        async with self._making:
            await self._broker.topics.ensure_internal(CONSUMER_OFFSETS_TOPIC)
            for wait_ms in TRIES_MS:
                try:
                    await self._ensure(principal, topic, channel, places)
                except ApiError as error:
                    if error.code not in _COMING:
                        raise
                    await self._broker.timer.sleep(wait_ms)
                else:
                    break
            else:
                await self._ensure(principal, topic, channel, places)
        return places

    async def _ensure(self, principal: Principal, topic: TopicImage, channel: str, places: Sequence[Place]) -> None:
        numbers = tuple(number for _, number in places)
        answer, found = await self._groups.offsets(principal, channel, {topic.topic_id: numbers})
        if answer.error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise ApiError(answer.error, answer.message or answer.error.name)
        for key, stored in found.items():
            self._first.setdefault(key, stored.state.start_offset)
        missing = [place for place in places if ShareKey(channel, *place) not in found]
        if missing:
            await self._make(principal, topic, channel, missing)

    async def _make(self, principal: Principal, topic: TopicImage, channel: str, places: Sequence[Place]) -> None:
        is_first = not await self._groups.of_topic(topic.topic_id)
        starts = {ShareKey(channel, *place): self._start(topic, place, is_first=is_first) for place in places}
        if self._is_stream(topic):
            # The group of a stream is in the stream; one that is there already stays where it is.
            for key, start in starts.items():
                _require_done([await self._broker.redis_exchange.groups.ensure(key, start)])
            starts = dict.fromkeys(starts, UNKNOWN_OFFSET)
        answer, begun = await self._groups.begin(principal, channel, starts)
        _require_done([answer, *begun.values()])
        self._first.update((key, start) for key, start in starts.items() if start != UNKNOWN_OFFSET)

    async def of_topic(self, principal: Principal, topic: TopicImage) -> list[str]:
        """The channels of a topic that the principal may describe: the share groups that have a state in it and a name
        that NSQ can say.
        """
        allows = self._broker.authorizer.allows
        groups = await self._groups.of_topic(topic.topic_id)
        return [
            group
            for group in groups
            if is_valid_name(group) and allows(principal, Operation.DESCRIBE, ResourceType.GROUP, group)
        ]

    async def standing(self, principal: Principal, topic: TopicImage, channel: str) -> Standing:
        """How a channel stands in the partitions that this broker leads. Raises ApiError."""
        depth = in_flight = deferred = messages = 0
        stored: dict[ShareKey, StateAnswer] | None = None
        for number in range(len(topic.partitions)):
            place = topic.topic_id, number
            partition = self._broker.replicas.find(topic.name, number)
            if partition is None or not partition.is_leader:
                continue
            key, end = ShareKey(channel, *place), partition.high_watermark
            found = self._broker.share_fetches.partitions.deliveries(principal, channel, place)
            if found is not None:
                start, done = found.start_offset, found.end_offset - found.start_offset - found.unfinished
                in_flight += found.in_flight
                deferred += found.waiting
                depth -= found.in_flight + found.waiting
            else:
                if stored is None:
                    numbers = tuple(range(len(topic.partitions)))
                    _, stored = await self._groups.offsets(principal, channel, {topic.topic_id: numbers})
                state = stored[key].state if key in stored else ShareState(start_offset=end)
                start, done = max(state.start_offset, partition.log.log_start_offset), max(0, state.complete_count)
            depth += max(0, end - start - done)
            messages += max(0, end - self._first.setdefault(key, start))
        return Standing(max(0, depth), in_flight, deferred, messages)

    async def coordinated_here(self, topic: TopicImage) -> list[str]:
        """The same of those that this broker coordinates, which costs no request to others."""
        return [group for group in await self._groups.of_topic_here(topic.topic_id) if is_valid_name(group)]

    def require_deletable(self, principal: Principal, topic: TopicImage, channel: str) -> None:
        """Refuse whoever may not delete a channel. Raises ApiError."""
        require(self._broker.authorizer, principal, Operation.READ, ResourceType.TOPIC, topic.name)
        require(self._broker.authorizer, principal, Operation.DELETE, ResourceType.GROUP, channel)

    async def delete(self, principal: Principal, topic: TopicImage, channel: str) -> None:
        """Forget what the channel has of the topic. Raises ApiError."""
        self.require_deletable(principal, topic, channel)
        numbers = tuple(range(len(topic.partitions)))
        for number in numbers:
            self._first.pop(ShareKey(channel, topic.topic_id, number), None)
        answer, deleted = await self._groups.delete_offsets(principal, channel, {topic.topic_id: numbers})
        _require_done([answer, *deleted.values()])
        await self._have_leaders_look(topic, channel)

    async def delete_unread(self, principal: Principal, topic: TopicImage, channel: str) -> None:
        """As `delete`, once the clients that were just hung up on are gone. Raises ApiError."""
        for wait_ms in GONE_MS:
            try:
                await self.delete(principal, topic, channel)
            except ApiError as error:
                if error.code is not ErrorCode.NON_EMPTY_GROUP:
                    raise
                await self._broker.timer.sleep(wait_ms)
            else:
                return
        await self.delete(principal, topic, channel)

    def is_coordinated_here(self, channel: str) -> bool:
        """Whether this broker coordinates the group of a channel."""
        return self._groups.is_coordinated_here(channel)

    async def empty(self, principal: Principal, topic: TopicImage, channel: str) -> None:
        """Have the channel begin at the end of the topic. Raises ApiError."""
        self.require_readable(principal, topic, channel)
        if self._is_stream(topic):
            end = await self._end(principal, topic, 0)
            key = ShareKey(channel, topic.topic_id, 0)
            _require_done([await self._broker.redis_exchange.groups.initialize(key, end)])
            return
        starts = {}
        for number in range(len(topic.partitions)):
            place = topic.topic_id, number
            end = await self._end(principal, topic, number)
            share = self._broker.share_fetches.partitions.loaded(channel, place)
            if share is None or not share.is_current:
                starts[ShareKey(channel, *place)] = end
            else:
                share.skip_to(end)
                self._broker.share_readers.begin_anew(channel, place)
        answer, altered = await self._groups.alter_offsets(principal, channel, starts)
        _require_done([answer, *altered.values()])
        if starts:
            await self._have_leaders_look(topic, channel)

    async def _have_leaders_look(self, topic: TopicImage, channel: str) -> None:
        """Readers of a channel, wherever they are, are to notice that it begins elsewhere, or is gone."""
        await self._broker.share_fetches.partitions.look_now(channel, topic.topic_id)
        if self._broker.remote_shares is not None:
            await self._broker.remote_shares.look(channel, topic.topic_id)

    async def _end(self, principal: Principal, topic: TopicImage, number: int) -> int:
        """The end of a partition, whoever leads it. Raises ApiError."""
        partition = self._broker.replicas.find(topic.name, number)
        if partition is not None and partition.is_leader:
            return partition.high_watermark
        offset = 0
        while True:
            try:
                read = await self._broker.records.read(
                    principal, TopicPartition(topic.name, number), offset, max_bytes=1, timeout_ms=END_TIMEOUT_MS
                )
            except OutOfRangeError as error:
                if error.log_start_offset <= offset:
                    raise
                offset = error.log_start_offset
            else:
                return read.high_watermark

    def _is_stream(self, topic: TopicImage) -> bool:
        return REDIS_KEY in self._broker.image.config(topic_resource(topic.name))

    def _start(self, topic: TopicImage, place: Place, *, is_first: bool) -> int:
        partition = self._broker.replicas.find(topic.name, place[1])
        if partition is None:
            return 0 if is_first else UNKNOWN_OFFSET  # the leader begins at its log start, or at its end
        return partition.log.log_start_offset if is_first else partition.high_watermark


def _require_done(answers: Sequence[ShareOffsetsAnswer | StateAnswer]) -> None:
    """Raises ApiError for the first that is an error."""
    for answer in answers:
        if answer.error is not ErrorCode.NONE:
            raise ApiError(answer.error, answer.message or answer.error.name)
