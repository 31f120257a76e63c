"""Groups that move from the classic protocol to the new one and back, while their members work (KIP-848).

    classic group    --- a member of the new protocol joins --->           consumer group, its members classic
    consumer group   --- the last member of the new protocol is gone --->  classic group, its members join anew

Either way the group keeps its members, their work and its offsets. `group.consumer.migration.policy` says which ways
are open.
"""

import logging
from collections.abc import Collection
from typing import Final
from uuid import UUID

from ottla.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.groups.consumer import records, regexes
from ottla.groups.consumer.consumer_group import ConsumerGroup
from ottla.groups.consumer.embedded_protocol import read_assignment, read_subscription, write_assignment
from ottla.groups.consumer.group_update import GroupUpdate
from ottla.groups.consumer.member import ConsumerMember, CurrentAssignment, Partitions
from ottla.groups.consumer.replay import replay_in
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_kind import GroupContext
from ottla.groups.members import GroupMembers, Member, MemberProtocol
from ottla.groups.records import GroupRecord, GroupSnapshot, KeyedRecord, MemberSnapshot
from ottla.groups.step import ClassicJoinTimer, ClassicSyncTimer, DowngradeTimer, SessionTimer, Step
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import MessageError
from ottla.protocol.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

logger = logging.getLogger(__name__)

MEMBER_OVERHEAD_BYTES: Final = 128
TOPIC_BYTES_MAX: Final = 260
PARTITION_BYTES: Final = 4
"""What members, topics and partitions take in the record of a classic group besides what they are called."""


def may_upgrade(group: ClassicGroup, config: GroupConfig) -> bool:
    """Whether a classic group with members may become a consumer group."""
    return (
        config.consumer.may_upgrade
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and len(group.members) <= config.consumer.max_size
    )


def upgrade(context: GroupContext, step: Step, group: ClassicGroup) -> ConsumerGroup:
    """The group as a consumer group: each member is stable, in the generation that was, with what it has.

    Raises ApiError GROUP_ID_NOT_FOUND when what its members sent each other cannot be read.
    """
    epoch = group.generation_id
    try:
        members = [_upgraded(context, group, member) for member in group.members]
    except MessageError as error:
        message = f"Cannot upgrade the classic group {group.group_id} to a consumer group: {error}"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
    group_id = group.group_id
    written: list[KeyedRecord] = [records.member(group_id, each.member_id, each.metadata) for each in members]
    written.append(records.group(group_id, epoch))
    for member in members:
        target: Partitions = {topic_id: frozenset(indexes) for topic_id, indexes in member.current.assigned.items()}
        written.append(records.target_member(group_id, member.member_id, target))
    written.append(records.target_metadata(group_id, epoch))
    written += [records.current_assignment(group_id, each.member_id, each.current) for each in members]
    step.outcome.write(GroupRecord(group_id, None))
    # The group itself is made when these are replayed; this one is what the rest of the step looks at.
    upgraded = ConsumerGroup(group_id)
    for record in written:
        step.outcome.write(record)
        replay_in(upgraded, record)
    update = GroupUpdate(context, step, upgraded)
    for member in members:
        update.begin_session(member)
    logger.info("group %s: converted to a consumer group, with %d classic members", group_id, len(members))
    return upgraded


def _upgraded(context: GroupContext, group: ClassicGroup, member: Member) -> ConsumerMember:
    protocol_name = group.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata(protocol_name))
    epoch = group.generation_id
    assigned: dict[UUID, dict[int, int]] = {
        topic_id: dict.fromkeys(indexes, epoch)
        for topic_id, indexes in read_assignment(member.assignment, context.image()).items()
    }
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(ClassicProtocol(each.name, each.metadata) for each in member.protocols),
        ),
    )
    return ConsumerMember(member.member_id, metadata, CurrentAssignment(epoch, epoch, assigned=assigned))


def fence(context: GroupContext, update: GroupUpdate, gone: Collection[ConsumerMember]) -> None:
    """Members are gone: a new epoch begins, or a classic group, when none of the others speaks the new protocol."""
    if may_downgrade_without(context, update, gone):
        downgrade(context, update, gone)
        return
    for member in gone:
        update.remove(member.member_id)
        update.cancel_timers(member.member_id)
    regexes.forget_regexes(update, [member.regex for member in gone])
    update.settle_epoch(must_grow=True)
    update.finish()


def may_downgrade_without(context: GroupContext, update: GroupUpdate, gone: Collection[ConsumerMember]) -> bool:
    """Whether the group becomes a classic one when these members are gone, or a classic member stands in for one."""
    if not context.config.consumer.may_downgrade or all(member.is_classic for member in gone):
        return False
    left = update.members.keys() - {member.member_id for member in gone}
    return (
        bool(left)
        and len(left) <= context.config.max_size
        and all(update.members[member_id].is_classic for member_id in left)
        and _record_bytes(update, left) <= context.config.record_bytes_max
    )


def _record_bytes(update: GroupUpdate, member_ids: Collection[str]) -> int:
    """At most about how many bytes the record of a classic group of these members takes."""
    total = 0
    for member_id in member_ids:
        metadata = update.members[member_id].metadata
        classic = metadata.classic_member_metadata
        assert classic is not None
        target = update.target.get(member_id, {})
        total += MEMBER_OVERHEAD_BYTES + len(member_id) + len(metadata.instance_id or "") + len(metadata.client_id)
        total += max(len(each.metadata) for each in classic.supported_protocols)
        total += sum(TOPIC_BYTES_MAX + PARTITION_BYTES * len(indexes) for indexes in target.values())
    return total


def downgrade(
    context: GroupContext,
    update: GroupUpdate,
    gone: Collection[ConsumerMember],
    successor: ConsumerMember | None = None,
) -> None:
    """Make a classic group of what is left. Without a successor, who has the work of the one that is gone, its members
    join anew.
    """
    group, outcome = update.group, update.step.outcome
    gone_ids = {member.member_id for member in gone}
    left = [member for member in update.members.values() if member.member_id not in gone_ids]
    protocol_name = _common_protocol(left)
    snapshots = []
    for member in left:
        classic = member.metadata.classic_member_metadata
        assert classic is not None
        subscription = next(each.metadata for each in classic.supported_protocols if each.name == protocol_name)
        target = update.target.get(member.member_id, {})
        snapshots.append(
            MemberSnapshot(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.metadata.client_id,
                client_host=member.metadata.client_host,
                rebalance_timeout_ms=member.metadata.rebalance_timeout_ms,
                session_timeout_ms=classic.session_timeout_ms,
                subscription=subscription,
                assignment=write_assignment(target, context.image(), subscription),
            )
        )
        for timer in (ClassicJoinTimer, ClassicSyncTimer):
            outcome.cancel_timer(timer(group.group_id, member.member_id))
        outcome.set_timer(SessionTimer(group.group_id, member.member_id), classic.session_timeout_ms)
    for member in gone:
        update.cancel_timers(member.member_id)
    # What was written in this step goes with the rest.
    for member_id in sorted(update.members.keys() - group.members.keys()):
        outcome.write(records.current_assignment(group.group_id, member_id, None))
        outcome.write(records.target_member(group.group_id, member_id, None))
        outcome.write(records.member(group.group_id, member_id, None))
    for record in group.tombstones():
        outcome.write(record)
    snapshot = GroupSnapshot(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation_id=update.epoch,
        protocol_name=protocol_name,
        leader_id=None,
        state_since_ms=update.step.now_ms,
        members=tuple(snapshots),
    )
    outcome.write(GroupRecord(group.group_id, snapshot))
    logger.info("group %s: converted to a classic group, with %d members", group.group_id, len(left))
    if successor is None:
        outcome.set_timer(DowngradeTimer(group.group_id), 0)


def _common_protocol(members: Collection[ConsumerMember]) -> str:
    """The protocol that classic members would agree on."""
    voters = GroupMembers()
    for member in members:
        classic = member.metadata.classic_member_metadata
        assert classic is not None
        voters.add(
            Member(
                member_id=member.member_id,
                instance_id=None,
                client_id="",
                client_host="",
                rebalance_timeout_ms=0,
                session_timeout_ms=0,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=tuple(MemberProtocol(each.name, each.metadata) for each in classic.supported_protocols),
            )
        )
    return voters.select_protocol()
