"""Consumer groups, for whoever may have to do with them."""

from collections.abc import Collection
from typing import Final

from ottla.broker.access import (
    CLUSTER_NAME,
    Authorizer,
    Operation,
    ResourceType,
    allowed_operations,
)
from ottla.coordination.outcome import Answer, Waiter
from ottla.groups.answers import (
    DeleteGroupAnswer,
    DescribeAnswer,
    GroupListing,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.requests import Heartbeat, Join, Leave, Sync
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

    __slots__ = ("_authorizer", "_coordinator", "_rng")

    def __init__(self, coordinator: GroupCoordinator, authorizer: Authorizer, rng: Rng) -> None:
        self._coordinator = coordinator
        self._authorizer = authorizer
        self._rng = rng

    def new_member_id(self, name: str) -> str:
        """An id that no member of any group has, to be told from others by the client's name."""
        return f"{name[:NAME_CHARACTERS_MAX]}-{self._rng.uuid()}"

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

    def describe(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """A group and its members."""
        if self._may(principal, Operation.DESCRIBE, group_id, waiter, DescribeAnswer):
            self._coordinator.describe(group_id, waiter)

    def delete(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """Delete an empty group with its offsets."""
        if self._may(principal, Operation.DELETE, group_id, waiter, DeleteGroupAnswer):
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

    def _may(
        self, principal: Principal, operation: Operation, group_id: str, waiter: Waiter, answer_type: type[Answer]
    ) -> bool:
        if self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id):
            return True
        waiter(answer_type(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return False
