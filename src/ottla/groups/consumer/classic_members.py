"""Members of a consumer group that speak the classic protocol: a group on its way from one to the other (KIP-848).

They have no leader. A member hears from its heartbeat that there is something new, joins, is told its epoch as the
generation, and fetches from SyncGroup what it may have now. What it is to give up it gives up by joining again without
owning it; nobody waits for anybody, so each of its requests is answered at once.
"""

import logging
from uuid import UUID

from ottla.groups.answers import HeartbeatAnswer, JoinAnswer, LeaveAnswer, LeftMember, SyncAnswer
from ottla.groups.consumer import migration, regexes
from ottla.groups.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from ottla.groups.consumer.embedded_protocol import by_topic_id, read_subscription, write_assignment
from ottla.groups.consumer.group_update import GroupUpdate
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.records import NOTHING_SAID
from ottla.groups.consumer_config import SUBSCRIPTION_BYTES_MAX
from ottla.groups.group_kind import GroupContext
from ottla.groups.requests import Heartbeat, Join, Leave, LeavingMember, Sync
from ottla.groups.step import ClassicJoinTimer, ClassicSyncTimer, Step
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import MessageError
from ottla.protocol.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

logger = logging.getLogger(__name__)


def new_member(member_id: str) -> ConsumerMember:
    """A member that has said nothing yet."""
    return ConsumerMember(member_id, NOTHING_SAID)


def join(context: GroupContext, step: Step, group: ConsumerGroup, request: Join) -> JoinAnswer:
    """JoinGroup. Raises ApiError when it is refused."""
    max_size = context.config.consumer.max_size
    if request.member_id not in group.members and len(group.members) >= max_size:
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    if not _supports(group, request):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocols of the member are not supported.")
    if not request.member_id and request.instance_id is None and request.must_rejoin_with_id:
        return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=request.new_member_id)
    update = GroupUpdate(context, step, group)
    replaced = None if request.instance_id is None else group.static_member(request.instance_id)
    before = _joining_member(update, replaced, request)
    metadata, owned = _metadata(update, before, request)
    member = ConsumerMember(before.member_id, metadata, before.current)
    must_grow = False
    if member.member_id not in update.members or metadata != before.metadata:
        update.put(member)
        must_grow = metadata.subscribed_topic_names != before.metadata.subscribed_topic_names
    regexes.forget_regexes(update, [before.regex])
    update.settle_epoch(must_grow=must_grow or update.matched.keys() != group.matched.keys())
    update.assign_if_due()
    member = update.reconcile(member, owned, asks_anew=metadata != before.metadata)
    update.finish()
    group.awaited_joins.discard(member.member_id)
    step.outcome.cancel_timer(ClassicJoinTimer(group.group_id, member.member_id))
    if replaced is not None and migration.may_downgrade_without(context, update, [replaced]):
        migration.downgrade(context, update, [replaced], successor=member)
    else:
        update.begin_session(member)
        timer = ClassicSyncTimer(group.group_id, member.member_id)
        step.outcome.set_timer(timer, max(request.rebalance_timeout_ms, 0))
    return JoinAnswer(
        member_id=member.member_id,
        generation_id=member.current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _supports(group: ConsumerGroup, request: Join) -> bool:
    """Whether the client offers a protocol that every classic member does."""
    if request.protocol_type != PROTOCOL_TYPE or not request.protocols:
        return False
    offered = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        classic = member.metadata.classic_member_metadata
        if classic is not None:
            offered &= {protocol.name for protocol in classic.supported_protocols}
    return bool(offered)


def _joining_member(update: GroupUpdate, replaced: ConsumerMember | None, request: Join) -> ConsumerMember:
    group = update.group
    if request.instance_id is None:
        member_id = request.member_id or request.new_member_id
        return group.members.get(member_id) or new_member(member_id)
    if not request.member_id:
        if replaced is None:
            return new_member(request.new_member_id)
        return update.replace_static(replaced, request.new_member_id)
    return _known(group, request.member_id, request.instance_id)


def _metadata(
    update: GroupUpdate, before: ConsumerMember, request: Join
) -> tuple[ConsumerGroupMemberMetadataValue, dict[UUID, frozenset[int]]]:
    """What the member asks for, and what it owns. Raises ApiError for what is no subscription, or too large."""
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except MessageError as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
    if sum(len(protocol.metadata) for protocol in request.protocols) > SUBSCRIPTION_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"The subscriptions take more than {SUBSCRIPTION_BYTES_MAX} bytes.")
    owned = by_topic_id(((each.topic, each.partitions) for each in subscription.owned_partitions), update.image)
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or before.metadata.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=update.group.shared_names(tuple(sorted(set(subscription.topics)))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=before.metadata.server_assignor,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols),
        ),
    )
    return metadata, {topic_id: frozenset(indexes) for topic_id, indexes in owned.items()}


def sync(context: GroupContext, step: Step, group: ConsumerGroup, request: Sync) -> SyncAnswer:
    """SyncGroup: what the member may have now. Raises ApiError when it is refused."""
    member = _classic(_known(group, request.member_id, request.instance_id))
    _check_generation(member, request.generation_id)
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    protocol = classic.supported_protocols[0]
    if (request.protocol_type or PROTOCOL_TYPE) != PROTOCOL_TYPE or (
        request.protocol_name or protocol.name
    ) != protocol.name:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the one the member was told.")
    if group.target_epoch > member.current.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(step, group, member)
        return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    step.outcome.cancel_timer(ClassicSyncTimer(group.group_id, member.member_id))
    GroupUpdate(context, step, group).begin_session(member)
    try:
        assignment = write_assignment(member.current.assigned, context.image(), protocol.metadata)
    except MessageError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    return SyncAnswer(protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment)


def heartbeat(context: GroupContext, step: Step, group: ConsumerGroup, request: Heartbeat) -> HeartbeatAnswer:
    """Heartbeat: the member is there, and hears whether to join again. Raises ApiError when it is refused."""
    member = _classic(_known(group, request.member_id, request.instance_id))
    _check_generation(member, request.generation_id)
    GroupUpdate(context, step, group).begin_session(member)
    if _has_news(group, member):
        _await_join(step, group, member)
        return HeartbeatAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatAnswer()


def _has_news(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether joining again would bring the member further: not before there is a target for the group's epoch."""
    current = member.current
    if current.epoch < group.target_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        partition not in current.assigned.get(topic_id, {}) and group.is_taken(topic_id, partition)
        for topic_id, indexes in group.target_of(member.member_id).items()
        for partition in indexes
    )


def leave(context: GroupContext, step: Step, group: ConsumerGroup, request: Leave) -> LeaveAnswer:
    """LeaveGroup: take members out, each for itself, whichever protocol they speak: an administrator does not ask."""
    left: list[LeftMember] = []
    gone: dict[str, ConsumerMember] = {}
    for leaving in request.members:
        member, error = _leaving(group, leaving)
        if member is not None:
            gone[member.member_id] = member
            logger.info("group %s: member %s leaves (%s)", group.group_id, member.member_id, leaving.reason)
        left.append(LeftMember(leaving.member_id, leaving.instance_id, error))
    if gone:
        migration.fence(context, GroupUpdate(context, step, group), list(gone.values()))
    return LeaveAnswer(members=tuple(left))


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> tuple[ConsumerMember | None, ErrorCode]:
    try:
        if leaving.instance_id is not None and not leaving.member_id:
            static = group.static_member(leaving.instance_id)
            if static is None:
                return None, ErrorCode.UNKNOWN_MEMBER_ID
            return static, ErrorCode.NONE
        return _known(group, leaving.member_id, leaving.instance_id), ErrorCode.NONE
    except ApiError as error:
        return None, error.code


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member. Raises ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = group.members.get(member_id)
    if instance_id is not None:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"Instance id {instance_id} belongs to another member.")
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _classic(member: ConsumerMember) -> ConsumerMember:
    """The same. Raises ApiError UNKNOWN_MEMBER_ID for one that does not speak the classic protocol."""
    if not member.is_classic:
        message = f"Member {member.member_id} does not use the classic protocol."
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    """Raises ApiError ILLEGAL_GENERATION."""
    if generation_id != member.current.epoch:
        message = f"The generation {generation_id} is not the epoch {member.current.epoch} of the member."
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, message)


def _await_join(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """The member was asked to join again: it has its rebalance timeout for that, from the first time it was asked."""
    if member.member_id not in group.awaited_joins:
        group.awaited_joins.add(member.member_id)
        timer = ClassicJoinTimer(group.group_id, member.member_id)
        step.outcome.set_timer(timer, max(member.metadata.rebalance_timeout_ms, 0))
