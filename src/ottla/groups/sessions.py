"""Sessions: how the coordinator notices that a member is gone.

A session lasts `session.timeout.ms` from the last heartbeat, offset commit or end of a rebalance. A member with a
parked JoinGroup or SyncGroup needs no heartbeat: its request shows that it is there.
"""

import logging

from ottla.groups import rebalance
from ottla.groups.answers import HeartbeatAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.member import Member
from ottla.groups.requests import Heartbeat
from ottla.groups.step import Step
from ottla.groups.timers import SessionTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)


def extend(step: Step, group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session starts anew."""
    step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), member.session_timeout_ms)


def heartbeat(step: Step, group: ClassicGroup, request: Heartbeat) -> HeartbeatAnswer:
    """Extend a member's session and tell it whether to join again."""
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return HeartbeatAnswer(error)
    if request.generation_id != group.generation_id:
        return HeartbeatAnswer(ErrorCode.ILLEGAL_GENERATION)
    extend(step, group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return HeartbeatAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatAnswer()


def expire(step: Step, group: ClassicGroup, member_id: str) -> None:
    """A session timer is due: take the member out and let the others share its work."""
    if group.members.is_pending(member_id):
        logger.info("group %s: member id %s was never used, it is void", group.group_id, member_id)
        group.remove(member_id)
        rebalance.complete_join_if_everybody_is_here(step, group)
        return
    member = group.members.get(member_id)
    if member is None or member.satisfies_heartbeat:
        return
    logger.info("group %s: member %s was not heard of, it is removed", group.group_id, member_id)
    rebalance.remove_member(step, group, member)
    rebalance.follow_up(step, group, f"member {member_id} was not heard of")
