"""Consumer groups, for whoever may have to do with them."""

from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.access import (
    CLUSTER_NAME,
    Authorizer,
    Operation,
    ResourceType,
    allowed_operations,
)
from ottla.coordination.outcome import Answer, Waiter
from ottla.groups.answers import (
    ConsumerDescribeAnswer,
    ConsumerHeartbeatAnswer,
    DeleteGroupAnswer,
    DescribeAnswer,
    GroupListing,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.requests import ConsumerHeartbeat, Heartbeat, Join, Leave, Sync
from ottla.metadata.records import topic_id_text
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.runtime.rng import Rng

NAME_CHARACTERS_MAX: Final = 255
"""How much of a client's name becomes part of its member id, which is kept and written with the group."""


class GroupService:
    """Asks whether the principal may, then the coordinator. Belongs to the event loop.

    Each `waiter` is called exactly once, with the answer that `GroupCoordinator` names, and with its error
    GROUP_AUTHORIZATION_FAILED for who may not.
    """

    __slots__ = ("_authorizer", "_coordinator", "_delete_share_group", "_rng")

    def __init__(
        self,
        coordinator: GroupCoordinator,
        authorizer: Authorizer,
        rng: Rng,
        delete_share_group: Callable[[Principal, str, Waiter], None] | None = None,
    ) -> None:
        """`delete_share_group` deletes a share group with its delivery states; None where there are no such groups."""
        self._delete_share_group = delete_share_group
        self._coordinator = coordinator
        self._authorizer = authorizer
        self._rng = rng

    def new_member_id(self, name: str) -> str:
        """An id that no member of any group has, to be told from others by the client's name."""
        return f"{name[:NAME_CHARACTERS_MAX]}-{self._rng.uuid()}"

    def new_consumer_member_id(self) -> str:
        """An id for a member of a consumer group that brings none: in the form in which clients make theirs."""
        return topic_id_text(self._rng.uuid())

    def join(self, principal: Principal, request: Join, waiter: Waiter) -> None:
        """Become a member, or take part in the next generation; answered when the rebalance has come that far."""
        if self._may(principal, Operation.READ, request.group_id, waiter, JoinAnswer):
            self._coordinator.join(request, waiter)

    def sync(self, principal: Principal, request: Sync, waiter: Waiter) -> None:
        """Fetch the assignment of a generation, and as the leader bring those of all."""
        if self._may(principal, Operation.READ, request.group_id, waiter, SyncAnswer):
            self._coordinator.sync(request, waiter)

    def heartbeat(self, principal: Principal, request: Heartbeat, waiter: Waiter) -> None:
        """Say that a member is there."""
        if self._may(principal, Operation.READ, request.group_id, waiter, HeartbeatAnswer):
            self._coordinator.heartbeat(request, waiter)

    def leave(self, principal: Principal, request: Leave, waiter: Waiter) -> None:
        """Take members out of a group."""
        if self._may(principal, Operation.READ, request.group_id, waiter, LeaveAnswer):
            self._coordinator.leave(request, waiter)

    def consumer_heartbeat(self, principal: Principal, request: ConsumerHeartbeat, waiter: Waiter) -> None:
        """Become, be or stop being a member of a consumer group.

        TOPIC_AUTHORIZATION_FAILED when the principal may not see a topic that is named; topics it may not see match no
        expression.
        """
        if not self._may(principal, Operation.READ, request.group_id, waiter, ConsumerHeartbeatAnswer):
            return
        may_see = self._may_see(principal)
        if not all(map(may_see, request.topic_names or ())):
            waiter(ConsumerHeartbeatAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return
        self._coordinator.consumer_heartbeat(replace(request, may_describe=may_see), waiter)

    def consumer_describe(
        self, principal: Principal, group_id: str, topic_name: Callable[[UUID], str | None], waiter: Waiter
    ) -> None:
        """A consumer group and its members; TOPIC_AUTHORIZATION_FAILED when it reads what the principal may not see."""
        if not self._may(principal, Operation.DESCRIBE, group_id, waiter, ConsumerDescribeAnswer):
            return
        may_see = self._may_see(principal)

        def answered(answer: ConsumerDescribeAnswer) -> None:
            for member in answer.members:
                assigned = (topic_name(topic_id) for topic_id in (*member.assignment, *member.target))
                names = (*member.topic_names, *(name for name in assigned if name is not None))
                if not all(map(may_see, names)):
                    message = "The group has described topic(s) that the client is not authorized to describe."
                    waiter(ConsumerDescribeAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, state="", message=message))
                    return
            waiter(answer)

        self._coordinator.consumer_describe(group_id, answered)

    def describe(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """A group and its members."""
        if self._may(principal, Operation.DESCRIBE, group_id, waiter, DescribeAnswer):
            self._coordinator.describe(group_id, waiter)

    def delete(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """Delete an empty group with its offsets; of a share group the delivery states go first."""
        if not self._may(principal, Operation.DELETE, group_id, waiter, DeleteGroupAnswer):
            return
        if self._delete_share_group is not None and self._coordinator.is_share_group(group_id):
            self._delete_share_group(principal, group_id, waiter)
        else:
            self._coordinator.delete(group_id, waiter)

    async def list_groups(
        self, principal: Principal, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """The groups this broker coordinates, of those the principal may see. Raises ApiError while some are loaded."""
        groups = await self._coordinator.list_groups(states, types)
        allows = self._authorizer.allows
        if allows(principal, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            return groups
        return [each for each in groups if allows(principal, Operation.DESCRIBE, ResourceType.GROUP, each.group_id)]

    def allowed_operations(self, principal: Principal, group_id: str) -> tuple[Operation, ...]:
        """What the principal may do with a group (KIP-430)."""
        return allowed_operations(self._authorizer, principal, ResourceType.GROUP, group_id)

    def _may_see(self, principal: Principal) -> Callable[[str], bool]:
        return lambda topic: self._authorizer.allows(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def _may(
        self, principal: Principal, operation: Operation, group_id: str, waiter: Waiter, answer_type: type[Answer]
    ) -> bool:
        if self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id):
            return True
        waiter(answer_type(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return False
