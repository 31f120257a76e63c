"""SyncGroup: the leader hands out the assignment, every member fetches its own."""

import logging

from ottla.coordination.outcome import Waiter
from ottla.groups import rebalance
from ottla.groups.answers import SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.requests import Sync
from ottla.groups.step import Step
from ottla.groups.timers import SyncTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)

MEMBER_OVERHEAD_BYTES = 64
"""More than the lengths and numbers of one member take in a group's record."""


def sync(step: Step, group: ClassicGroup, request: Sync, waiter: Waiter) -> None:
    """Decide a SyncGroup. Its waiter is answered now, or kept with the member until the leader has come.

    The group is stable from the moment the leader's assignment is here; members hear of it when it is in the log.
    """
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        step.answer(waiter, SyncAnswer(error))
        return
    member = group.members[request.member_id]
    group.pending_sync.pop(request.member_id, None)
    if not group.pending_sync:
        step.outcome.cancel_timer(SyncTimer(group.group_id))
    if group.state is GroupState.STABLE:
        step.answer(waiter, SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment))
        return
    step.answer(member.unpark_sync(), SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_waiter = waiter
    if request.member_id == group.leader_id:
        _assign(step, group, dict(request.assignments))


def _check(group: ClassicGroup, request: Sync) -> ErrorCode:
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(said: str | None, agreed: str | None) -> bool:
    """Whether a client names another protocol than the group agreed on; old clients name none."""
    return said is not None and agreed is not None and said != agreed


def _assign(step: Step, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """The leader has decided: every member gets its part, those it forgot get nothing."""
    before = {member.member_id: member.assignment for member in group.members}
    for member in group.members:
        member.assignment = assignments.get(member.member_id, b"")
    size = _record_bytes(group)
    if size > step.config.record_bytes_max:
        logger.error("group %s: its record would take %d bytes, it cannot be stored", group.group_id, size)
        for member in group.members:
            member.assignment = before[member.member_id]
        rebalance.answer_syncs(step, group, ErrorCode.UNKNOWN_SERVER_ERROR)
        rebalance.begin(step, group, "the assignment is too large to be stored")
        return
    group.move_to(GroupState.STABLE, step.now_ms)
    rebalance.record(step, group)
    rebalance.answer_syncs(step, group, ErrorCode.NONE)


def _record_bytes(group: ClassicGroup) -> int:
    """At most how many bytes the group's record takes, leaving aside what text takes beyond a byte a character."""
    return sum(
        MEMBER_OVERHEAD_BYTES
        + len(member.member_id)
        + len(member.instance_id or "")
        + len(member.client_id)
        + len(member.client_host)
        + len(member.metadata(group.protocol_name))
        + len(member.assignment)
        for member in group.members
    )
