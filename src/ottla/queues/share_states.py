"""Delivery states wherever they are coordinated: here by a call, on another broker by a request (APIs 83 to 87)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from uuid import UUID

from ottla.client.errors import ClientError
from ottla.coordination.awaited import awaited
from ottla.coordination.outcome import Waiter
from ottla.metadata.image.image import NO_LEADER, MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.queues.share_state import ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer, WriteState
from ottla.queues.state_batches import StateBatch
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.peers.broker_channels import BrokerChannels
    from ottla.protocol.message import ApiMessage

R = TypeVar("R", bound="ApiMessage")

TRIES_MS: Final = (0, 20, 50, 100, 200, 500, 1_000, 1_000, 2_000, 2_000, 2_000)
"""How long to wait before each try: ten seconds in all, as long as a coordinator may move."""
REQUEST_MS: Final = 5_000

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class RemoteStates(Protocol):
    """The states that another broker coordinates. Raises ClientError when it is not reached."""

    async def initialize(self, broker_id: int, key: ShareKey, state_epoch: int, start_offset: int) -> StateAnswer: ...

    async def read(self, broker_id: int, key: ShareKey, leader_epoch: int) -> StateAnswer: ...

    async def write(self, broker_id: int, request: WriteState) -> StateAnswer: ...

    async def delete(self, broker_id: int, key: ShareKey) -> StateAnswer: ...

    async def summary(self, broker_id: int, key: ShareKey) -> StateAnswer: ...


class StreamStates(Protocol):
    """The states of the groups of streams, which are in the streams themselves."""

    async def initialize(self, key: ShareKey, start_offset: int) -> StateAnswer: ...

    async def delete(self, key: ShareKey) -> StateAnswer: ...

    async def summary(self, key: ShareKey) -> StateAnswer: ...


class ShareStates:
    """Belongs to the event loop. Answers have an error where it is final; each call takes at most ten seconds."""

    def __init__(
        self,
        coordinator: ShareCoordinator,
        image: Callable[[], MetadataImage],
        ensure_topic: Callable[[str], Awaitable[TopicImage]],
        broker_id: int,
        timer: Timer,
        remote: RemoteStates | None = None,
        streams: Callable[[UUID], StreamStates | None] = lambda topic_id: None,
    ) -> None:
        """`remote` reaches other brokers; None on one that is alone. `streams` has the states of a topic that is a
        stream of Redis, and None for others.
        """
        self._coordinator = coordinator
        self._image = image
        self._ensure_topic = ensure_topic
        self._broker_id = broker_id
        self._timer = timer
        self._remote = remote
        self._streams = streams

    def is_stream(self, topic_id: UUID) -> bool:
        """Whether the states of a topic are in the topic itself."""
        return self._streams(topic_id) is not None

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> StateAnswer:
        """Make a state, or begin it anew; the topic of the states is made when it is first needed."""
        streams = self._streams(key.topic_id)
        if streams is not None:
            return await streams.initialize(key, start_offset)
        try:
            await self._ensure_topic(SHARE_GROUP_STATE_TOPIC)
        except ApiError as error:
            return StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message=error.message)
        return await self._ask(
            key,
            lambda waiter: self._coordinator.initialize(key, state_epoch, start_offset, waiter),
            lambda remote, leader: remote.initialize(leader, key, state_epoch, start_offset),
            # The coordinator may learn later than this broker that the topic was made.
            _RETRIABLE | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )

    async def read(self, key: ShareKey, leader_epoch: int) -> StateAnswer:
        """Read a state for the leader of an epoch."""
        return await self._ask(
            key,
            lambda waiter: self._coordinator.read(key, leader_epoch, waiter),
            lambda remote, leader: remote.read(leader, key, leader_epoch),
        )

    async def write(self, request: WriteState) -> StateAnswer:
        """Write what changed."""
        return await self._ask(
            request.key,
            lambda waiter: self._coordinator.write(request, waiter),
            lambda remote, leader: remote.write(leader, request),
        )

    async def delete(self, key: ShareKey) -> StateAnswer:
        """Delete a state."""
        streams = self._streams(key.topic_id)
        if streams is not None:
            return await streams.delete(key)
        return await self._ask(
            key,
            lambda waiter: self._coordinator.delete(key, waiter),
            lambda remote, leader: remote.delete(leader, key),
        )

    async def summary(self, key: ShareKey) -> StateAnswer:
        """A state without its batches."""
        streams = self._streams(key.topic_id)
        if streams is not None:
            return await streams.summary(key)
        return await self._ask(
            key,
            lambda waiter: self._coordinator.summary(key, waiter),
            lambda remote, leader: remote.summary(leader, key),
        )

    async def _ask(
        self,
        key: ShareKey,
        here: Callable[[Waiter], None],
        there: Callable[[RemoteStates, int], Awaitable[StateAnswer]],
        retriable: Set[ErrorCode] = _RETRIABLE,
    ) -> StateAnswer:
        answer = StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for wait_ms in TRIES_MS:
            if wait_ms:
                await self._timer.sleep(wait_ms)
            leader = self._leader_of(key)
            if leader == self._broker_id:
                answer = await awaited(here)
            elif leader == NO_LEADER or self._remote is None:
                answer = StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                try:
                    answer = await there(self._remote, leader)
                except ClientError as error:
                    answer = StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(error))
            if answer.error not in retriable:
                return answer
        return answer

    def _leader_of(self, key: ShareKey) -> int:
        topic = self._image().topic(SHARE_GROUP_STATE_TOPIC)
        return NO_LEADER if topic is None else topic.partitions[self._coordinator.partition_of(key.text)].leader


class StateChannel:
    """`RemoteStates` over the channels between brokers."""

    def __init__(self, channels: BrokerChannels) -> None:
        self._channels = channels

    async def _ask(self, broker_id: int, request: ApiMessage, response: type[R]) -> R:
        from ottla.peers.broker_channels import SHARE_STATE

        return await self._channels.request(broker_id, request, response, timeout_ms=REQUEST_MS, lane=SHARE_STATE)

    async def initialize(self, broker_id: int, key: ShareKey, state_epoch: int, start_offset: int) -> StateAnswer:
        """InitializeShareGroupState, of one share partition."""
        from ottla.protocol.messages import initialize_share_group_state as messages

        partition = messages.PartitionData(key.partition, state_epoch, start_offset)
        topic = messages.InitializeStateData(key.topic_id, (partition,))
        request = messages.InitializeShareGroupStateRequest(key.group_id, (topic,))
        response = await self._ask(broker_id, request, messages.InitializeShareGroupStateResponse)
        return _plain(response.results)

    async def read(self, broker_id: int, key: ShareKey, leader_epoch: int) -> StateAnswer:
        """ReadShareGroupState, of one share partition."""
        from ottla.protocol.messages import read_share_group_state as messages

        topic = messages.ReadStateData(key.topic_id, (messages.PartitionData(key.partition, leader_epoch),))
        request = messages.ReadShareGroupStateRequest(key.group_id, (topic,))
        response = await self._ask(broker_id, request, messages.ReadShareGroupStateResponse)
        for result in response.results:
            for each in result.partitions:
                if each.error_code:
                    return StateAnswer(ErrorCode(each.error_code), message=each.error_message)
                batches = tuple(
                    StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count, b.not_before)
                    for b in each.state_batches
                )
                state = ShareState(state_epoch=each.state_epoch, start_offset=each.start_offset, batches=batches)
                return StateAnswer(state=state)
        return StateAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)

    async def write(self, broker_id: int, request: WriteState) -> StateAnswer:
        """WriteShareGroupState, of one share partition."""
        from ottla.protocol.messages import write_share_group_state as messages

        partition = messages.PartitionData(
            partition=request.key.partition,
            state_epoch=request.state_epoch,
            leader_epoch=request.leader_epoch,
            start_offset=request.start_offset,
            delivery_complete_count=request.complete_count,
            state_batches=tuple(messages.StateBatch(*batch) for batch in request.batches),
        )
        topic = messages.WriteStateData(request.key.topic_id, (partition,))
        message = messages.WriteShareGroupStateRequest(request.key.group_id, (topic,))
        response = await self._ask(broker_id, message, messages.WriteShareGroupStateResponse)
        return _plain(response.results)

    async def delete(self, broker_id: int, key: ShareKey) -> StateAnswer:
        """DeleteShareGroupState, of one share partition."""
        from ottla.protocol.messages import delete_share_group_state as messages

        topic = messages.DeleteStateData(key.topic_id, (messages.PartitionData(key.partition),))
        request = messages.DeleteShareGroupStateRequest(key.group_id, (topic,))
        response = await self._ask(broker_id, request, messages.DeleteShareGroupStateResponse)
        return _plain(response.results)

    async def summary(self, broker_id: int, key: ShareKey) -> StateAnswer:
        """ReadShareGroupStateSummary, of one share partition."""
        from ottla.protocol.messages import read_share_group_state_summary as messages

        topic = messages.ReadStateSummaryData(key.topic_id, (messages.PartitionData(key.partition, -1),))
        request = messages.ReadShareGroupStateSummaryRequest(key.group_id, (topic,))
        response = await self._ask(broker_id, request, messages.ReadShareGroupStateSummaryResponse)
        for result in response.results:
            for each in result.partitions:
                if each.error_code:
                    return StateAnswer(ErrorCode(each.error_code), message=each.error_message)
                state = ShareState(
                    state_epoch=each.state_epoch,
                    leader_epoch=each.leader_epoch,
                    start_offset=each.start_offset,
                    complete_count=each.delivery_complete_count,
                )
                return StateAnswer(state=state)
        return StateAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)


class _Partition(Protocol):
    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


class _Result(Protocol):
    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> tuple[_Partition, ...]: ...


def _plain(results: tuple[_Result, ...]) -> StateAnswer:
    for result in results:
        for each in result.partitions:
            return StateAnswer(ErrorCode(each.error_code), message=each.error_message)
    return StateAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
