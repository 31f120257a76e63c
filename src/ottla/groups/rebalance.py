"""The rebalance of a classic group: from the first member that moves to a new generation that is agreed.

    begin ----------> wait for members ------------> complete_join ------------> wait for SyncGroup
            (all parked, or JoinTimer: late ones out)     answers to JoinGroup    (SyncTimer: late ones out)

The first rebalance of an empty group waits a little longer, so that consumers which start together share one
generation: `group.initial.rebalance.delay.ms`, again for as long as new members keep coming, at most the rebalance
timeout in all (KIP-134).
"""

import logging

from ottla.groups.answers import JoinAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group_state import GroupState
from ottla.groups.member import Member
from ottla.groups.records import GroupRecord
from ottla.groups.step import Step
from ottla.groups.timers import JoinTimer, SessionTimer, SyncTimer
from ottla.model.error_code import ErrorCode

logger = logging.getLogger(__name__)

RETRY_MS_MIN = 1_000
"""A rebalance that nobody came to is tried again no sooner, even when its members ask for a time-out of 0."""


def begin_or_go_on(step: Step, group: ClassicGroup, reason: str) -> None:
    """Something changed: begin a rebalance, or see whether the one that is prepared can be completed now."""
    if group.can_rebalance:
        begin(step, group, reason)
    else:
        complete_join_if_everybody_is_here(step, group)


def begin(step: Step, group: ClassicGroup, reason: str) -> None:
    """Ask every member to join again, by heartbeat, or by the answer to a parked SyncGroup."""
    logger.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation_id, reason)
    if group.state is GroupState.COMPLETING_REBALANCE:
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


def complete_join_if_everybody_is_here(step: Step, group: ClassicGroup) -> None:
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
            logger.info("group %s: member %s did not join in time, it is removed", group.group_id, member.member_id)
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
        record(step, group)
        return
    for member in group.members:
        step.answer(group.members.unpark_join(member), group.joined(member.member_id))
        step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), member.session_timeout_ms)
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
    begin(step, group, f"{', '.join(late)} did not fetch an assignment in time")


def remove_member(step: Step, group: ClassicGroup, member: Member) -> None:
    """Take a member out; a parked JoinGroup is told UNKNOWN_MEMBER_ID, so that a client still there starts over.

    `follow_up` must be called after the last one.
    """
    step.answer(group.members.unpark_join(member), JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    step.answer(member.unpark_sync(), SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    step.outcome.cancel_timer(SessionTimer(group.group_id, member.member_id))


def follow_up(step: Step, group: ClassicGroup, reason: str) -> None:
    """Members were taken out: the others share the work anew."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        begin(step, group, reason)
    else:
        complete_join_if_everybody_is_here(step, group)


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
        step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), member.session_timeout_ms)


def record(step: Step, group: ClassicGroup) -> None:
    """Write the generation to the log."""
    group.is_recorded = True
    step.outcome.write(GroupRecord(group.group_id, group.snapshot()))
