"""LeaveGroup: members that go, by themselves or because an administrator says so (KIP-345)."""

import logging

from ottla.groups import rebalance
from ottla.groups.answers import LeaveAnswer, LeftMember
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.requests import Leave, LeavingMember
from ottla.groups.step import Step
from ottla.groups.timers import SessionTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)


def leave(step: Step, group: ClassicGroup, request: Leave) -> LeaveAnswer:
    """Take members out, each for itself, and have the others share their work."""
    left = tuple(
        LeftMember(leaving.member_id, leaving.instance_id, _leave_one(step, group, leaving))
        for leaving in request.members
    )
    gone = [member.member_id or member.instance_id or "" for member in left if member.error is ErrorCode.NONE]
    if gone:
        rebalance.follow_up(step, group, f"{', '.join(gone)} left")
    return LeaveAnswer(members=left)


def _leave_one(step: Step, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        known_id = group.members.static_member_id(leaving.instance_id)
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
    rebalance.remove_member(step, group, group.members[member_id])
    return ErrorCode.NONE
