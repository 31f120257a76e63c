"""Share groups for whoever may have to do with them: heartbeats, descriptions, start offsets (KIP-932).

A group reads a partition once the delivery state of the two exists. A heartbeat that finds partitions without state
has it made in the background; they are assigned after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.access import Authorizer, Operation, ResourceType
from ottla.coordination.awaited import awaited
from ottla.coordination.outcome import Waiter
from ottla.groups.answers import DeleteGroupAnswer
from ottla.groups.share.exchange import (
    OffsetsPurpose,
    PartitionsInitialized,
    ShareDescribeAnswer,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareOffsets,
    ShareOffsetsAnswer,
    TopicPartitions,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey
from ottla.queues.share_state_shard import StateAnswer

if TYPE_CHECKING:
    from ottla.broker.group_consumers import GroupConsumers
    from ottla.groups.coordinator import GroupCoordinator
    from ottla.metadata.image.image import MetadataImage
    from ottla.model.principal import Principal
    from ottla.queues.share_states import ShareStates
    from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

HAS_STATE = "The group is not empty, and reads this partition."


class ShareGroupService:
    """Asks whether the principal may, then the coordinators. Belongs to the event loop; waiters are called once."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        states: ShareStates,
        image: Callable[[], MetadataImage],
        tasks: Tasks,
        authorizer: Authorizer,
        consumers: GroupConsumers,
    ) -> None:
        self._coordinator = coordinator
        self._states = states
        self._image = image
        self._tasks = tasks
        self._authorizer = authorizer
        self._consumers = consumers
        self._initializing: set[ShareKey] = set()

    def heartbeat(self, principal: Principal, said: ShareHeartbeat, waiter: Waiter) -> None:
        """A member joins, is there, or leaves; answers with a ShareHeartbeatAnswer."""
        request = said.request
        if not self._may(principal, Operation.READ, ResourceType.GROUP, request.group_id):
            waiter(ShareHeartbeatAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        names = request.subscribed_topic_names or ()
        if not all(self._may(principal, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
            waiter(ShareHeartbeatAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return

        def answered(answer: ShareHeartbeatAnswer) -> None:
            if answer.to_initialize:
                self._initialize_soon(request.group_id, answer.to_initialize)
            waiter(answer)

        self._coordinator.share_heartbeat(said, answered, ShareHeartbeatAnswer)

    def describe(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """A group and its members; answers with a ShareDescribeAnswer."""
        if not self._may(principal, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            waiter(ShareDescribeAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return

        def answered(answer: ShareDescribeAnswer) -> None:
            group = answer.group
            names = set() if group is None else {name for each in group.members for name in each.subscribed_topic_names}
            if not all(self._may(principal, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
                message = "The group has described topic(s) that the client is not authorized to describe."
                answer = ShareDescribeAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=message)
            waiter(answer)

        self._coordinator.share_describe(group_id, answered, ShareDescribeAnswer)

    async def offsets(
        self, principal: Principal, group_id: str, topics: TopicPartitions | None
    ) -> tuple[ShareOffsetsAnswer, dict[ShareKey, StateAnswer]]:
        """The stored start of partitions, of all that the group has state of when `topics` is None."""
        answer = await self._ask(principal, Operation.DESCRIBE, ShareOffsets(group_id, OffsetsPurpose.DESCRIBE, topics))
        found: dict[ShareKey, StateAnswer] = {}
        if answer.error is ErrorCode.NONE:
            for key in _keys(group_id, answer.partitions):
                found[key] = await self._states.summary(key)
        return answer, found

    async def of_topic(self, topic_id: UUID) -> list[str]:
        """The groups of this broker that have a state in a topic. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        return await self._coordinator.share_groups_of(topic_id)

    async def alter_offsets(
        self, principal: Principal, group_id: str, starts: Mapping[ShareKey, int], *, is_read: bool = False
    ) -> tuple[ShareOffsetsAnswer, dict[ShareKey, StateAnswer]]:
        """Have an empty group begin elsewhere in these partitions; a group is not looked for when there are none.

        With `is_read`, readers that are no members may be there, and where there are members it is `begin`.
        """
        topics: dict[UUID, tuple[int, ...]] = {}
        for key in starts:
            topics[key.topic_id] = (*topics.get(key.topic_id, ()), key.partition)
        altered: dict[ShareKey, StateAnswer] = {}
        if not starts and self._may(principal, Operation.READ, ResourceType.GROUP, group_id):
            return ShareOffsetsAnswer(), altered
        request = ShareOffsets(group_id, OffsetsPurpose.ALTER, topics)
        answer = await self._ask_to_change(principal, Operation.READ, request, is_read=is_read)
        if answer.error is ErrorCode.NON_EMPTY_GROUP and is_read:
            return await self.begin(principal, group_id, starts)
        if answer.error is ErrorCode.NONE:
            for key, start_offset in starts.items():
                altered[key] = await self._states.initialize(key, answer.epoch, start_offset)
            await self._report(group_id, [key for key, each in altered.items() if each.error is ErrorCode.NONE])
        return answer, altered

    async def begin(
        self, principal: Principal, group_id: str, starts: Mapping[ShareKey, int]
    ) -> tuple[ShareOffsetsAnswer, dict[ShareKey, StateAnswer]]:
        """Have a group, which may have members, begin in partitions of which it has no state yet.

        NON_EMPTY_GROUP for one that has a state by now or is being given it, of a partition or as a whole.
        """
        begun: dict[ShareKey, StateAnswer] = {}
        if not self._initializing.isdisjoint(starts):
            return ShareOffsetsAnswer(ErrorCode.NON_EMPTY_GROUP, message=HAS_STATE), begun
        self._initializing.update(starts)  # heartbeats make no state of these meanwhile
        try:
            topics: dict[UUID, tuple[int, ...]] = {}
            for key in starts:
                topics[key.topic_id] = (*topics.get(key.topic_id, ()), key.partition)
            answer = await self._ask(principal, Operation.READ, ShareOffsets(group_id, OffsetsPurpose.BEGIN, topics))
            if answer.error is not ErrorCode.NONE:
                return answer, begun
            present = set(_keys(group_id, answer.partitions))
            for key, start_offset in starts.items():
                if key in present:
                    begun[key] = StateAnswer(ErrorCode.NON_EMPTY_GROUP, message=HAS_STATE)
                else:
                    begun[key] = await self._states.initialize(key, answer.epoch, start_offset)
            await self._report(group_id, [key for key, each in begun.items() if each.error is ErrorCode.NONE])
        finally:
            self._initializing.difference_update(starts)
        return answer, begun

    async def delete_offsets(
        self, principal: Principal, group_id: str, topics: TopicPartitions | None, *, is_read: bool = False
    ) -> tuple[ShareOffsetsAnswer, dict[ShareKey, StateAnswer]]:
        """Delete the state of an empty group in topics, or in all of them; `is_read` as for `alter_offsets`."""
        request = ShareOffsets(group_id, OffsetsPurpose.DELETE, topics)
        answer = await self._ask_to_change(principal, Operation.DELETE, request, is_read=is_read)
        deleted: dict[ShareKey, StateAnswer] = {}
        if answer.error is ErrorCode.NONE:
            for key in _keys(group_id, answer.partitions):
                deleted[key] = await self._states.delete(key)
            if is_read and topics and all(map(self._states.is_stream, topics)):
                await self._delete_unused(group_id)
        return answer, deleted

    async def _delete_unused(self, group_id: str) -> None:
        """The last stream of a group has forgotten it: it goes, unless it has members or other topics."""
        request = ShareOffsets(group_id, OffsetsPurpose.DESCRIBE)
        answer = await awaited(lambda waiter: self._coordinator.share_offsets(request, waiter, ShareOffsetsAnswer))
        assert isinstance(answer, ShareOffsetsAnswer)
        if answer.error is ErrorCode.NONE and not answer.partitions:
            await awaited(lambda waiter: self._coordinator.delete(group_id, waiter))

    def delete_group(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """Delete an empty group, its delivery states first; answers with a DeleteGroupAnswer."""
        self._tasks.spawn(self._delete_group(principal, group_id, waiter), "share-delete")

    async def _delete_group(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            answer, deleted = await self.delete_offsets(principal, group_id, None)
            error = next(
                (each.error for each in (answer, *deleted.values()) if each.error is not ErrorCode.NONE), answer.error
            )
        finally:
            if error is ErrorCode.NONE:
                self._coordinator.delete(group_id, waiter)
            else:
                waiter(DeleteGroupAnswer(error))

    async def _ask_to_change(
        self, principal: Principal, operation: Operation, request: ShareOffsets, *, is_read: bool
    ) -> ShareOffsetsAnswer:
        if not is_read and self._may(principal, operation, ResourceType.GROUP, request.group_id):
            try:
                await self._consumers.require_none(request.group_id)
            except ApiError as error:
                return ShareOffsetsAnswer(error.code, message=error.message)
        return await self._ask(principal, operation, request)

    async def _ask(self, principal: Principal, operation: Operation, request: ShareOffsets) -> ShareOffsetsAnswer:
        if not self._may(principal, operation, ResourceType.GROUP, request.group_id):
            return ShareOffsetsAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        answer = await awaited(lambda waiter: self._coordinator.share_offsets(request, waiter, ShareOffsetsAnswer))
        assert isinstance(answer, ShareOffsetsAnswer)
        return answer

    def _initialize_soon(self, group_id: str, partitions: TopicPartitions) -> None:
        keys = [key for key in _keys(group_id, partitions) if key not in self._initializing]
        if keys:
            self._initializing.update(keys)
            self._tasks.spawn(self._initialize(group_id, keys), "share-state")

    async def _initialize(self, group_id: str, keys: list[ShareKey]) -> None:
        """Make the state of partitions, and report those of which that succeeded."""
        try:
            made = []
            for key in keys:
                answer = await self._states.initialize(key, 0, UNKNOWN_OFFSET)
                # One that has a newer state epoch exists already.
                if answer.error in (ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH):
                    made.append(key)
                else:
                    logger.warning(
                        "share group %s: the state of partition %d was not made: %s",
                        group_id,
                        key.partition,
                        answer.message or answer.error.name,
                    )
            await self._report(group_id, made)
        finally:
            self._initializing.difference_update(keys)

    async def _report(self, group_id: str, keys: list[ShareKey]) -> None:
        if not keys:
            return
        partitions: dict[UUID, tuple[int, ...]] = {}
        for key in keys:
            partitions[key.topic_id] = (*partitions.get(key.topic_id, ()), key.partition)
        report = PartitionsInitialized(group_id, partitions)
        await awaited(lambda waiter: self._coordinator.share_initialized(report, waiter))

    def _may(self, principal: Principal, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self._authorizer.allows(principal, operation, kind, name)


def _keys(group_id: str, partitions: TopicPartitions) -> list[ShareKey]:
    return [ShareKey(group_id, topic_id, each) for topic_id, some in partitions.items() for each in some]
