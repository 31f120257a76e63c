"""The consumer groups of a shard: the requests of their members, what becomes of them, and the replay of records."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from uuid import UUID

from msgspec.structs import replace

from ottla.groups import member_epoch as epochs
from ottla.groups.answers import (
    ConsumerDescribeAnswer,
    ConsumerHeartbeatAnswer,
    ConsumerMemberDescription,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.consumer import classic_members, migration, records, regexes
from ottla.groups.consumer.consumer_group import ConsumerGroup, bytes_of
from ottla.groups.consumer.group_update import AssignmentRun, GroupUpdate
from ottla.groups.consumer.heartbeat_check import check_heartbeat
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.reconciliation import Owned, check_epoch
from ottla.groups.consumer.replay import replay_in
from ottla.groups.group import Group, GroupType
from ottla.groups.group_config import GROUP_METADATA_BYTES_MAX
from ottla.groups.group_kind import GroupContext
from ottla.groups.records import KeyedRecord
from ottla.groups.requests import ConsumerHeartbeat, Heartbeat, Join, Leave, Sync
from ottla.groups.step import (
    AssignmentTimer,
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberTimer,
    RebalanceTimer,
    RegexTimer,
    SessionTimer,
    Step,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records import consumer_group as formats

logger = logging.getLogger(__name__)


class ConsumerGroups:
    """Satisfies `GroupKind`. Requests raise ApiError when they are refused: the step is to be thrown away then."""

    __slots__ = ("_context",)

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # ConsumerGroupHeartbeat

    def heartbeat(self, step: Step, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """A member joins, is there, or leaves.

        1. What the member asks for is noted. A new epoch begins when that changes what is to be assigned, or when the
           topics of the group are not what they were.
        2. A target that is older than the group is computed anew.
        3. The member comes as far towards its target as it may.
        """
        check_heartbeat(request, self._context.config.consumer.assignors)
        if request.member_epoch < epochs.JOIN_GROUP:
            return self._leave(step, request)
        update = GroupUpdate(self._context, step, self._group_to_join(step, request))
        before = self._member_of(update, request)
        member = ConsumerMember(before.member_id, _asked_for(before, request, update.group), before.current)
        if request.topic_names is not None:
            _check_room(member.metadata, update.group)
        must_grow = False
        if member.member_id not in update.members or member.metadata != before.metadata:
            update.put(member)
            must_grow |= member.metadata.subscribed_topic_names != before.metadata.subscribed_topic_names
        must_grow |= regexes.update_regexes(update, before, member, request.may_describe)
        update.settle_epoch(must_grow=must_grow)
        update.assign_if_due()
        asks_anew = member.metadata != before.metadata or update.matched is not update.group.matched
        member = update.reconcile(member, _owned(request), asks_anew=asks_anew)
        update.begin_session(member)
        update.finish()
        is_full = (
            request.rebalance_timeout_ms >= 0
            and (request.topic_names is not None or request.topic_regex is not None)
            and request.owned is not None
        )
        tells = (
            request.member_epoch == epochs.JOIN_GROUP or is_full or member.current.assigned != before.current.assigned
        )
        return ConsumerHeartbeatAnswer(
            member_id=member.member_id,
            member_epoch=member.current.epoch,
            heartbeat_interval_ms=update.times.heartbeat_interval_ms,
            assignment=_sorted(member.current.assigned) if tells else None,
        )

    def _group_to_join(self, step: Step, request: ConsumerHeartbeat) -> ConsumerGroup:
        """The group, made or converted for a member that joins. Raises ApiError GROUP_ID_NOT_FOUND."""
        group = self._context.groups.get(request.group_id)
        joins = request.member_epoch == epochs.JOIN_GROUP
        if group is None and joins:
            return self._with_room(ConsumerGroup(request.group_id), request)
        if isinstance(group, ConsumerGroup):
            return self._with_room(group, request)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if joins and group.is_empty and group.group_type is not GroupType.SHARE:
            for record in group.tombstones():
                step.outcome.write(record)
            return self._with_room(ConsumerGroup(request.group_id), request)
        if joins and isinstance(group, ClassicGroup) and migration.may_upgrade(group, self._context.config):
            return self._with_room(migration.upgrade(self._context, step, group), request)
        raise _not_a_consumer_group(group)

    def _with_room(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerGroup:
        """The group, if the member is in it or there is room. Raises ApiError GROUP_MAX_SIZE_REACHED."""
        max_size = self._context.config.consumer.max_size
        if request.member_id not in group.members and len(group.members) >= max_size:
            message = f"The consumer group has reached its maximum capacity of {max_size} members."
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return group

    def _member_of(self, update: GroupUpdate, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member as it is, or as it begins. Raises ApiError when it is not one, or not in this epoch."""
        group, joins, owned = update.group, request.member_epoch == epochs.JOIN_GROUP, _owned(request)
        member_id = request.member_id or request.new_member_id
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if not joins:
                    message = f"Member {member_id} is not a member of group {group.group_id}."
                    raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
                return classic_members.new_member(member_id)
            check_epoch(member.current, request.member_epoch, owned)
            return member
        static = group.static_member(request.instance_id)
        if not joins:
            member = _require_static(static, member_id, request.instance_id)
            check_epoch(member.current, request.member_epoch, owned)
            return member
        if static is None:
            return classic_members.new_member(member_id)
        if not static.is_classic and static.current.epoch != epochs.LEAVE_GROUP_STATIC:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
                f"instance id is owned by {static.member_id} member.",
            )
        return update.replace_static(static, member_id)

    def _leave(self, step: Step, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        update = GroupUpdate(self._context, step, self._consumer_group(request.group_id))
        if request.instance_id is None:
            member = update.group.members.get(request.member_id)
            if member is None:
                message = f"Member {request.member_id} is not a member of group {request.group_id}."
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        else:
            static = update.group.static_member(request.instance_id)
            member = _require_static(static, request.member_id, request.instance_id)
        if request.member_epoch == epochs.LEAVE_GROUP_STATIC and request.instance_id is not None:
            away = replace(member.current, epoch=epochs.LEAVE_GROUP_STATIC, pending_revocation={})
            update.write(records.current_assignment(request.group_id, member.member_id, away))
            logger.info("group %s: static member %s leaves temporarily", request.group_id, request.instance_id)
        else:
            logger.info("group %s: member %s leaves", request.group_id, member.member_id)
            migration.fence(self._context, update, [member])
        return ConsumerHeartbeatAnswer(member_id=request.member_id, member_epoch=request.member_epoch)

    # Members that speak the classic protocol

    def join(self, step: Step, request: Join) -> JoinAnswer:
        """JoinGroup in a consumer group."""
        return classic_members.join(self._context, step, self._consumer_group(request.group_id), request)

    def sync(self, step: Step, request: Sync) -> SyncAnswer:
        """SyncGroup in a consumer group."""
        return classic_members.sync(self._context, step, self._consumer_group(request.group_id), request)

    def classic_heartbeat(self, step: Step, request: Heartbeat) -> HeartbeatAnswer:
        """Heartbeat in a consumer group."""
        return classic_members.heartbeat(self._context, step, self._consumer_group(request.group_id), request)

    def leave(self, step: Step, request: Leave) -> LeaveAnswer:
        """LeaveGroup in a consumer group."""
        return classic_members.leave(self._context, step, self._consumer_group(request.group_id), request)

    # Administrators

    def describe(self, group_id: str) -> ConsumerDescribeAnswer:
        """ConsumerGroupDescribe of one group."""
        group = self._consumer_group(group_id)
        return ConsumerDescribeAnswer(
            state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=GroupUpdate(self._context, Step(0, self._context.config), group).assignor_name,
            members=tuple(
                ConsumerMemberDescription(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=member.metadata.rack_id,
                    member_epoch=member.current.epoch,
                    client_id=member.metadata.client_id,
                    client_host=member.metadata.client_host,
                    topic_names=member.metadata.subscribed_topic_names,
                    topic_regex=member.regex,
                    assignment=_sorted(member.current.in_use()),
                    target=_sorted(group.target_of(member.member_id)),
                    is_classic=member.is_classic,
                )
                for member in group.members.values()
            ),
        )

    def _consumer_group(self, group_id: str) -> ConsumerGroup:
        """Raises ApiError GROUP_ID_NOT_FOUND."""
        group = self._context.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(group)
        return group

    # What the shard asks of every kind

    def begin_sessions(self, step: Step, group: Group) -> int:
        """The group was loaded: every member has a whole session to be heard of."""
        assert isinstance(group, ConsumerGroup)
        update = GroupUpdate(self._context, step, group)
        for member in group.members.values():
            update.begin_session(member)
            if not member.is_classic and member.current.state is MemberState.UNREVOKED_PARTITIONS:
                timer = RebalanceTimer(group.group_id, member.member_id)
                step.outcome.set_timer(timer, max(member.metadata.rebalance_timeout_ms, 0))
        return len(group.members)

    def handle_timer(self, step: Step, group: Group, key: MemberTimer) -> None:
        """A timer of a consumer group is due."""
        assert isinstance(group, ConsumerGroup)
        update = GroupUpdate(self._context, step, group)
        if isinstance(key, AssignmentTimer):
            run = group.pending.get(AssignmentRun)
            # What cannot be assigned is said in the log; each heartbeat of a member hears why, and tries again.
            with suppress(ApiError):
                if isinstance(run, AssignmentRun):
                    update.go_on_assigning(run, 1)
                else:
                    update.assign_if_due()
        elif isinstance(key, RegexTimer):
            refresh = group.pending.get(regexes.RegexRefresh)
            if isinstance(refresh, regexes.RegexRefresh) and regexes.go_on(update, refresh):
                update.settle_epoch(must_grow=True)
                update.finish()
        elif isinstance(key, SessionTimer | RebalanceTimer | ClassicJoinTimer | ClassicSyncTimer):
            member = group.members.get(key.member_id)
            if member is not None:
                logger.info("group %s: member %s is fenced: %s", group.group_id, key.member_id, _REASONS[type(key)])
                migration.fence(self._context, update, [member])

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record; one of a group that became another kind meanwhile has nothing to say."""
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self._context.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            is_placeholder = isinstance(group, ClassicGroup) and group.is_empty and not group.is_recorded
            if record.value is None or not (group is None or is_placeholder):
                return
            # Offsets that were read before the group's own records made a group to hold them.
            group = self._context.groups[group_id] = ConsumerGroup(group_id)
        if isinstance(record.key, formats.ConsumerGroupMetadataKey) and record.value is None:
            del self._context.groups[group_id]
        else:
            replay_in(group, record)


_REASONS = {
    SessionTimer: "it was not heard of",
    RebalanceTimer: "it did not give up its partitions in time",
    ClassicJoinTimer: "it did not join again in time",
    ClassicSyncTimer: "it did not fetch its assignment in time",
}


def _asked_for(
    before: ConsumerMember, request: ConsumerHeartbeat, group: ConsumerGroup
) -> formats.ConsumerGroupMemberMetadataValue:
    """What a member asks for now: what it says, and for the rest what it said before."""
    known = before.metadata
    names = known.subscribed_topic_names if request.topic_names is None else group.shared_names(request.topic_names)
    return formats.ConsumerGroupMemberMetadataValue(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=names,
        subscribed_topic_regex=known.subscribed_topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
        ),
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def _require_static(static: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Raises ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if static is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}."
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, message)
    return static


def _check_room(metadata: formats.ConsumerGroupMemberMetadataValue, group: ConsumerGroup) -> None:
    """Raises ApiError GROUP_MAX_SIZE_REACHED when what the members subscribe to takes more than a group may hold."""
    names = metadata.subscribed_topic_names
    if not group.knows_names(names) and group.names_bytes + bytes_of(names) > GROUP_METADATA_BYTES_MAX:
        message = f"The subscriptions of the group would take more than {GROUP_METADATA_BYTES_MAX} bytes."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _owned(request: ConsumerHeartbeat) -> Owned | None:
    if request.owned is None:
        return None
    return {topic_id: frozenset(indexes) for topic_id, indexes in request.owned if indexes}


def _sorted(partitions: Mapping[UUID, Iterable[int]]) -> dict[UUID, list[int]]:
    return {topic_id: sorted(indexes) for topic_id, indexes in partitions.items()}


def _not_a_consumer_group(group: Group) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
