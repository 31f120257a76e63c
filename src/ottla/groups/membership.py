"""What members do between two rebalances: SyncGroup, Heartbeat, LeaveGroup; and how they are missed.

A session lasts `session.timeout.ms` from the last heartbeat, offset commit or end of a rebalance. A member with a
parked JoinGroup or SyncGroup needs no heartbeat: its request shows that it is there.
"""

import logging

from ottla.coordination.outcome import Waiter
from ottla.groups import joining
from ottla.groups.answers import HeartbeatAnswer, LeaveAnswer, LeftMember, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.requests import Heartbeat, Leave, LeavingMember, Sync
from ottla.groups.step import SessionTimer, Step, SyncTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)

MEMBER_OVERHEAD_BYTES = 64
"""More than the lengths and numbers of one member take in a group's record."""


def sync(step: Step, group: ClassicGroup, request: Sync, waiter: Waiter) -> None:
    """Decide a SyncGroup: the leader hands out the assignment, every member fetches its own.

    The waiter is answered now, or kept with the member until the leader has come. The group is stable from the moment
    the leader's assignment is here; members hear of it when it is in the log.
    """
    error = _check_sync(group, request)
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


def _check_sync(group: ClassicGroup, request: Sync) -> ErrorCode:
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    for said, agreed in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        # Old clients name neither.
        if said is not None and agreed is not None and said != agreed:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE


def _assign(step: Step, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """The leader has decided: every member gets its part, those it forgot get nothing."""
    for member in group.members:
        member.assignment = assignments.get(member.member_id, b"")
    size = _record_bytes(group)
    if size > step.config.record_bytes_max:
        logger.error("group %s: its record of %d bytes is too large to be stored", group.group_id, size)
        joining.answer_syncs(step, group, ErrorCode.UNKNOWN_SERVER_ERROR)
        joining.prepare_rebalance(step, group, "the assignment is too large to be stored")
        return
    group.move_to(GroupState.STABLE, step.now_ms)
    joining.record_generation(step, group)
    joining.answer_syncs(step, group, ErrorCode.NONE)


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


def heartbeat(step: Step, group: ClassicGroup, request: Heartbeat) -> HeartbeatAnswer:
    """Extend a member's session and tell it whether to join again."""
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return HeartbeatAnswer(error)
    if request.generation_id != group.generation_id:
        return HeartbeatAnswer(ErrorCode.ILLEGAL_GENERATION)
    joining.extend_session(step, group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return HeartbeatAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatAnswer()


def leave(step: Step, group: ClassicGroup, request: Leave) -> LeaveAnswer:
    """Take members out, each for itself, by themselves or because an administrator says so (KIP-345); the others share
    their work.
    """
    left = tuple(
        LeftMember(leaving.member_id, leaving.instance_id, _leave_one(step, group, leaving))
        for leaving in request.members
    )
    gone = [member.member_id or member.instance_id or "" for member in left if member.error is ErrorCode.NONE]
    if gone:
        joining.rebalance_after_removal(step, group, f"{', '.join(gone)} left")
    return LeaveAnswer(members=left)


def _leave_one(step: Step, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        known_id = None if leaving.instance_id is None else group.members.static_member_id(leaving.instance_id)
        if known_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known_id
    elif group.members.is_pending(member_id):
        group.remove(member_id)
        step.outcome.cancel_timer(SessionTimer(group.group_id, member_id))
        return ErrorCode.NONE
    else:
        error = group.check_member(member_id, leaving.instance_id)
        if error is not ErrorCode.NONE:
            return error
    logger.info("group %s: member %s leaves (%s)", group.group_id, member_id, leaving.reason)
    joining.remove_member(step, group, group.members[member_id])
    return ErrorCode.NONE


def on_session_timer(step: Step, group: ClassicGroup, member_id: str) -> None:
    """A session has ended: take the member out and let the others share its work."""
    if group.members.is_pending(member_id):
        logger.info("group %s: removing member id %s, which was never used", group.group_id, member_id)
        group.remove(member_id)
        joining.maybe_complete_join(step, group)
        return
    member = group.members.get(member_id)
    if member is None or member.satisfies_heartbeat:
        return
    logger.info("group %s: removing member %s, whose session expired", group.group_id, member_id)
    joining.remove_member(step, group, member)
    joining.rebalance_after_removal(step, group, f"member {member_id} was not heard of")
