"""JoinGroup, and the rebalance it leads to: from the first member that moves to a new generation that is agreed.

    join --> prepare_rebalance --> wait for members ------------> complete_join --------> wait for SyncGroup
                 (all have joined, or JoinTimer: late ones out)     answers to JoinGroup  (SyncTimer: late ones out)

What a JoinGroup means depends on who sends it:
- a dynamic client without an id gets one and is asked to join with it (KIP-394);
- a static client without an id is new, or takes the place of the one that had its `group.instance.id` (KIP-345);
- a member joins again: because a rebalance is prepared, because it changed its mind, or because it lost our answer.

The first rebalance of an empty group waits a little longer, so that consumers which start together share one
generation: `group.initial.rebalance.delay.ms`, again for as long as new members keep coming, at most the rebalance
timeout in all (KIP-134).
"""

import logging

from msgspec.structs import replace

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups import group_config
from ottla.groups.answers import JoinAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.members import Member
from ottla.groups.records import GroupRecord
from ottla.groups.requests import Join
from ottla.groups.step import JoinTimer, SessionTimer, Step, SyncTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)

RETRY_MS_MIN = 1_000
"""A rebalance that nobody came to is tried again no sooner, even when its members ask for a time-out of 0."""


def join(step: Step, group: ClassicGroup, request: Join, waiter: Waiter) -> None:
    """Decide a JoinGroup. Its waiter is answered now, or kept with the member until the rebalance is complete."""
    if not _has_room(step, group, request):
        member = group.members.get(request.member_id)
        if member is not None:
            remove_member(step, group, member)
        group.remove(request.member_id)
        step.answer(waiter, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        maybe_complete_join(step, group)
    elif not group.supports(request.protocol_type, request.protocols):
        step.answer(waiter, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
    elif request.member_id:
        _join_with_id(step, group, request, waiter)
    elif request.instance_id is not None:
        known_id = group.members.static_member_id(request.instance_id)
        if known_id is None:
            _add_member(step, group, request, request.new_member_id, waiter)
        else:
            _replace_static_member(step, group, request, group.members[known_id], waiter)
    elif not request.must_rejoin_with_id:
        _add_member(step, group, request, request.new_member_id, waiter)
    elif len(group.members.pending) >= group_config.PENDING_MEMBERS_MAX:
        step.answer(waiter, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
    else:
        group.members.add_pending(request.new_member_id)
        step.outcome.set_timer(SessionTimer(group.group_id, request.new_member_id), request.session_timeout_ms)
        step.answer(waiter, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=request.new_member_id))


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
    return group.state is GroupState.EMPTY or member is not None or len(group.members) < step.config.max_size


def _join_with_id(step: Step, group: ClassicGroup, request: Join, waiter: Waiter) -> None:
    """A client with a member id: one that was given out and not used yet, or a member that joins again."""
    member_id = request.member_id
    if group.members.is_pending(member_id) and request.instance_id is None:
        _add_member(step, group, request, member_id, waiter)
        return
    error = group.check_member(member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        step.answer(waiter, JoinAnswer(error, member_id=member_id))
        return
    member = group.members[member_id]
    # A leader that joins a stable group asks for a rebalance: it knows of a change that the members' own
    # subscriptions do not show, such as new partitions.
    leader_asks = group.state is GroupState.STABLE and member_id == group.leader_id
    if leader_asks or group.state is GroupState.PREPARING_REBALANCE or member.protocols != request.protocols:
        _update_member(step, group, member, request, waiter)
        maybe_prepare_rebalance_or_complete_join(step, group, f"member {member_id} joins again ({request.reason})")
    else:
        # It lost our answer, or follows in a stable group: tell it of the generation it is in.
        step.answer(waiter, group.joined(member_id))


def _add_member(step: Step, group: ClassicGroup, request: Join, member_id: str, waiter: Waiter) -> None:
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
    maybe_prepare_rebalance_or_complete_join(step, group, f"member {member_id} joins ({request.reason})")


def _update_member(step: Step, group: ClassicGroup, member: Member, request: Join, waiter: Waiter) -> None:
    """Note what a member wants now and park its request in place of an earlier one."""
    group.members.set_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    earlier = group.members.park_join(member, waiter)
    step.answer(earlier, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))


def _replace_static_member(step: Step, group: ClassicGroup, request: Join, old: Member, waiter: Waiter) -> None:
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
    _update_member(step, group, member, request, waiter)
    extend_session(step, group, member)
    logger.info("group %s: static member %s rejoins as %s", group.group_id, request.instance_id, member.member_id)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id already.
        prepare_rebalance(step, group, f"static member {request.instance_id} is back")
    elif group.state is GroupState.STABLE and group.members.select_protocol() == group.protocol_name:
        group.members.unpark_join(member)
        record_generation(step, group)
        leads = group.leader_id == member.member_id
        if request.may_skip_assignment:
            step.answer(waiter, group.joined(member.member_id, skip_assignment=leads))
        else:
            step.answer(waiter, replace(group.joined(member.member_id), leader_id=old_leader_id or "", members=()))
    else:
        reason = f"static member {request.instance_id} is back with another protocol"
        maybe_prepare_rebalance_or_complete_join(step, group, reason)


def maybe_prepare_rebalance_or_complete_join(step: Step, group: ClassicGroup, reason: str) -> None:
    """Something changed: begin a rebalance, or see whether the one that is prepared can be completed now."""
    if group.can_rebalance:
        prepare_rebalance(step, group, reason)
    else:
        maybe_complete_join(step, group)


def prepare_rebalance(step: Step, group: ClassicGroup, reason: str) -> None:
    """Ask every member to join again, by heartbeat, or by the answer to a parked SyncGroup."""
    logger.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation_id, reason)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # What they had before this generation they gave up by joining it, and of this one they never heard.
        for member in group.members:
            member.assignment = b""
        answer_syncs(step, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    step.outcome.cancel_timer(SyncTimer(group.group_id))
    is_first = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, step.now_ms)
    timeout_ms = group.members.rebalance_timeout_ms()
    if is_first:
        delay_ms = step.config.initial_rebalance_delay_ms
        group.initial_wait_left_ms = max(timeout_ms - delay_ms, 0)
        group.member_added_in_wait = False
        step.outcome.set_timer(JoinTimer(group.group_id), delay_ms)
    elif group.members.everybody_joined:
        complete_join(step, group)
    else:
        step.outcome.set_timer(JoinTimer(group.group_id), timeout_ms)


def on_join_timer(step: Step, group: ClassicGroup) -> None:
    """The wait for members is over, unless it is a first rebalance that members keep coming to."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    left_ms = group.initial_wait_left_ms
    if left_ms and group.member_added_in_wait:
        delay_ms = min(step.config.initial_rebalance_delay_ms, left_ms)
        group.initial_wait_left_ms = left_ms - delay_ms
        group.member_added_in_wait = False
        step.outcome.set_timer(JoinTimer(group.group_id), delay_ms)
    else:
        complete_join(step, group)


def maybe_complete_join(step: Step, group: ClassicGroup) -> None:
    """Complete the rebalance that is prepared once nobody is missing. A first rebalance waits for its timer."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and not group.is_first_rebalance
        and group.members.everybody_joined
    ):
        complete_join(step, group)


def complete_join(step: Step, group: ClassicGroup) -> None:
    """Begin the next generation with those who joined; dynamic members who did not are out."""
    step.outcome.cancel_timer(JoinTimer(group.group_id))
    for member in group.members:
        if not member.awaits_join and not member.is_static:
            logger.info("group %s: removing member %s, which did not join in time", group.group_id, member.member_id)
            group.remove(member.member_id)
            step.outcome.cancel_timer(SessionTimer(group.group_id, member.member_id))
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none is back: wait on, until they are or their sessions end.
        timeout_ms = max(group.members.rebalance_timeout_ms(), RETRY_MS_MIN)
        step.outcome.set_timer(JoinTimer(group.group_id), timeout_ms)
        return
    group.begin_generation(step.now_ms)
    if group.state is GroupState.EMPTY:
        logger.info("group %s: empty at generation %d", group.group_id, group.generation_id)
        record_generation(step, group)
        return
    for member in group.members:
        step.answer(group.members.unpark_join(member), group.joined(member.member_id))
        extend_session(step, group, member)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    step.outcome.set_timer(SyncTimer(group.group_id), group.members.rebalance_timeout_ms())
    logger.info(
        "group %s: generation %d with %d members and protocol %s",
        group.group_id,
        group.generation_id,
        len(group.members),
        group.protocol_name,
    )


def on_sync_timer(step: Step, group: ClassicGroup) -> None:
    """Members that joined the generation but never fetched their assignment are out, and the others share anew."""
    if not group.pending_sync or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    late = tuple(group.pending_sync)
    for member_id in late:
        remove_member(step, group, group.members[member_id])
    prepare_rebalance(step, group, f"{', '.join(late)} did not fetch an assignment in time")


def remove_member(step: Step, group: ClassicGroup, member: Member) -> None:
    """Take a member out; a parked JoinGroup is told UNKNOWN_MEMBER_ID, so that a client still there starts over.

    `rebalance_after_removal` must be called after the last one.
    """
    step.answer(group.members.unpark_join(member), JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    step.answer(member.unpark_sync(), SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    step.outcome.cancel_timer(SessionTimer(group.group_id, member.member_id))


def rebalance_after_removal(step: Step, group: ClassicGroup, reason: str) -> None:
    """Members were taken out: the others share the work anew."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(step, group, reason)
    else:
        maybe_complete_join(step, group)


def extend_session(step: Step, group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session starts anew."""
    step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), member.session_timeout_ms)


def answer_syncs(step: Step, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every parked SyncGroup: with its member's assignment, or with an error."""
    for member in group.members:
        waiter = member.unpark_sync()
        if waiter is None:
            continue
        if error is ErrorCode.NONE:
            answer = SyncAnswer(error, group.protocol_type, group.protocol_name, member.assignment)
        else:
            answer = SyncAnswer(error)
        step.answer(waiter, answer)
        extend_session(step, group, member)


def record_generation(step: Step, group: ClassicGroup) -> None:
    """Write the generation to the log."""
    group.is_recorded = True
    step.outcome.write(GroupRecord(group.group_id, group.snapshot()))


def answer_everybody(outcome: Outcome, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every parked JoinGroup and SyncGroup with an error: the group is not here any longer, or not classic."""
    for member in group.members:
        for waiter, kind in ((group.members.unpark_join(member), JoinAnswer), (member.unpark_sync(), SyncAnswer)):
            if waiter is not None:
                answer: Answer = kind(error)
                outcome.answer(waiter, answer)


def begin_sessions(step: Step, group: ClassicGroup) -> int:
    """The group was loaded: every member has a whole session to be heard of. Returns how many there are."""
    for member in group.members:
        if not member.is_new:
            extend_session(step, group, member)
    if len(group.members) > step.config.max_size and group.can_rebalance:
        prepare_rebalance(step, group, f"it is larger than group.max.size={step.config.max_size}")
    elif group.members and group.leader_id is None and group.can_rebalance:
        # It had just been made of a consumer group, and what a member that left had is nobody's.
        prepare_rebalance(step, group, "it has no leader")
    return len(group.members)
