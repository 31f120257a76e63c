"""JoinGroup: how a client becomes a member, comes back, or takes part in the next generation.

What happens depends on who asks:
- a dynamic client without an id gets one and is asked to join with it (KIP-394);
- a static client without an id is new, or takes the place of the one that had its `group.instance.id` (KIP-345);
- a member joins again: because a rebalance is prepared, because it changed its mind, or because it lost our answer.
"""

import logging
from dataclasses import replace

from ottla.coordination.outcome import Waiter
from ottla.groups import group_config, rebalance, sessions
from ottla.groups.answers import JoinAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.member import Member
from ottla.groups.requests import Join
from ottla.groups.step import Step
from ottla.groups.timers import SessionTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)


def join(step: Step, group: ClassicGroup, request: Join, waiter: Waiter) -> None:
    """Decide a JoinGroup. Its waiter is answered now, or kept with the member until the rebalance is complete."""
    if not _has_room(step, group, request):
        member = group.members.get(request.member_id)
        if member is not None:
            rebalance.remove_member(step, group, member)
        group.remove(request.member_id)
        step.answer(waiter, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        rebalance.complete_join_if_everybody_is_here(step, group)
    elif not group.supports(request.protocol_type, request.protocols):
        step.answer(waiter, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
    elif request.member_id:
        _join_with_id(step, group, request, waiter)
    elif request.instance_id is not None:
        _join_static(step, group, request, request.instance_id, waiter)
    elif request.must_rejoin_with_id:
        _give_id(step, group, request, waiter)
    else:
        _add(step, group, request, request.new_member_id, waiter)


def _has_room(step: Step, group: ClassicGroup, request: Join) -> bool:
    """Whether `group.max.size`, and what the group may hold in memory, let this client in.

    While members rejoin, those count who are back: a group that is larger than allowed, because the setting was
    lowered, sheds those who come last.
    """
    offered_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
    if group.members.metadata_bytes + offered_bytes > group_config.GROUP_METADATA_BYTES_MAX:
        return False
    member = group.members.get(request.member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.awaits_join) or group.members.joined_count < step.config.max_size
    if group.state is GroupState.EMPTY:
        return True
    return member is not None or len(group.members) < step.config.max_size


def _give_id(step: Step, group: ClassicGroup, request: Join, waiter: Waiter) -> None:
    if len(group.members.pending) >= group_config.PENDING_MEMBERS_MAX:
        step.answer(waiter, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member_id = request.new_member_id
    group.members.add_pending(member_id)
    step.outcome.set_timer(SessionTimer(group.group_id, member_id), request.session_timeout_ms)
    step.answer(waiter, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))


def _join_static(step: Step, group: ClassicGroup, request: Join, instance_id: str, waiter: Waiter) -> None:
    known_id = group.members.static_member_id(instance_id)
    if known_id is None:
        _add(step, group, request, request.new_member_id, waiter)
    else:
        _replace_static(step, group, request, group.members[known_id], waiter)


def _join_with_id(step: Step, group: ClassicGroup, request: Join, waiter: Waiter) -> None:
    member_id = request.member_id
    if group.members.is_pending(member_id) and request.instance_id is None:
        _add(step, group, request, member_id, waiter)
        return
    error = group.check_member(member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        step.answer(waiter, JoinAnswer(error, member_id=member_id))
        return
    member = group.members[member_id]
    if _must_rebalance(group, member, request):
        _update(step, group, member, request, waiter)
        rebalance.begin_or_go_on(step, group, f"member {member_id} joins again ({request.reason})")
    else:
        # It lost our answer, or follows in a stable group: tell it of the generation it is in.
        step.answer(waiter, group.joined(member_id))


def _must_rebalance(group: ClassicGroup, member: Member, request: Join) -> bool:
    """Whether a member's JoinGroup changes something, or is awaited.

    A leader that joins a stable group asks for a rebalance: it knows of a change that the members' own subscriptions
    do not show, such as new partitions.
    """
    if group.state is GroupState.PREPARING_REBALANCE or member.protocols != request.protocols:
        return True
    return group.state is GroupState.STABLE and member.member_id == group.leader_id


def _add(step: Step, group: ClassicGroup, request: Join, member_id: str, waiter: Waiter) -> None:
    """Take a new member in and have the others share with it."""
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        is_new=True,
    )
    if group.is_first_rebalance:
        group.member_added_in_wait = True
    group.add(member)
    group.members.park_join(member, waiter)
    # It cannot send heartbeats before it has its answer, and a client that gives up and tries again would leave
    # a member behind each time: they are swept up after this long.
    step.outcome.set_timer(SessionTimer(group.group_id, member_id), step.config.new_member_join_timeout_ms)
    logger.info("group %s: member %s joins (%s)", group.group_id, member_id, request.reason)
    rebalance.begin_or_go_on(step, group, f"member {member_id} joins ({request.reason})")


def _update(step: Step, group: ClassicGroup, member: Member, request: Join, waiter: Waiter) -> None:
    """Note what a member wants now and park its request in place of an earlier one."""
    group.members.set_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    earlier = group.members.park_join(member, waiter)
    step.answer(earlier, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))


def _replace_static(step: Step, group: ClassicGroup, request: Join, old: Member, waiter: Waiter) -> None:
    """A static client came back without its member id: it takes its old place, and the old id is fenced.

    In a stable group nothing else happens as long as the protocol stays the same: the new member goes on with the old
    one's assignment. Clients that cannot be told to skip the assignment (before KIP-814) hear of the old leader, so
    that a returning leader does not assign anew.
    """
    old_leader_id = group.leader_id
    step.answer(group.members.unpark_join(old), JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
    step.answer(old.unpark_sync(), SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
    member = group.replace_static(old, request.new_member_id)
    step.outcome.cancel_timer(SessionTimer(group.group_id, old.member_id))
    member.client_id, member.client_host = request.client_id, request.client_host
    _update(step, group, member, request, waiter)
    sessions.extend(step, group, member)
    logger.info("group %s: static member %s is back as %s", group.group_id, request.instance_id, member.member_id)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id already.
        rebalance.begin(step, group, f"static member {request.instance_id} is back")
    elif group.state is GroupState.STABLE and group.members.select_protocol() == group.protocol_name:
        group.members.unpark_join(member)
        rebalance.record(step, group)
        leads = group.leader_id == member.member_id
        if request.may_skip_assignment:
            step.answer(waiter, group.joined(member.member_id, skip_assignment=leads))
        else:
            step.answer(waiter, replace(group.joined(member.member_id), leader_id=old_leader_id or "", members=()))
    else:
        rebalance.begin_or_go_on(step, group, f"static member {request.instance_id} is back with another protocol")
