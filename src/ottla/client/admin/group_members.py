"""Who is in a group, whichever protocol it speaks, and how to send them away.

Members that are removed do not stop: they get an unknown-member error, rejoin and continue from the offsets that the
group has then.
"""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from ottla.client.admin import streams_group
from ottla.client.consuming.group_offsets import check_group
from ottla.client.consuming.group_protocol import decode_assignment
from ottla.client.errors import BrokerError, UnsupportedApiError
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from ottla.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

CLASSIC = "classic"
CONSUMER = "consumer"
STREAMS = "streams"
CONSUMER_PROTOCOL_TYPE = "consumer"
DEAD = "Dead"

LEAVE_EPOCH = -1
REMOVED = "an administrator moves the group"


class GroupMember(Struct, frozen=True):
    """A member, and the partitions it was given; empty when its protocol is not the consumers'.

    `protocol` is `classic`, `consumer` or `streams`. `epoch` is the member epoch in the latter two, else -1.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    protocol: str = CLASSIC
    epoch: int = -1


class GroupNow(Struct, frozen=True):
    """A group and its members; the state is `Dead` when the coordinator does not know it.

    `epoch` is -1 for a classic group, because the broker does not return its generation.
    """

    state: str
    group_type: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    epoch: int = -1


async def group_now(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupNow:
    """The group as it is. Raises BrokerError."""
    classic = await _classic(cluster, group_id, deadline)
    if classic is not None and classic.group_state != DEAD:
        return GroupNow(
            state=classic.group_state,
            group_type=CLASSIC,
            protocol_type=classic.protocol_type,
            assignor=classic.protocol_data,
            members=tuple(_classic_member(member, classic.protocol_type) for member in classic.members),
        )
    consumer = await _consumer(cluster, group_id, deadline)
    if consumer is None:
        return await _streams(cluster, group_id, deadline) or GroupNow(DEAD, CLASSIC, "", "", ())
    return GroupNow(
        state=consumer.group_state,
        group_type=CONSUMER,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=consumer.assignor_name,
        members=tuple(_consumer_member(member) for member in consumer.members),
        epoch=consumer.group_epoch,
    )


async def remove_members(cluster: Cluster, group_id: str, members: Iterable[GroupMember], deadline: Deadline) -> None:
    """Take members out of a group; one that is gone already is none. Raises BrokerError."""
    members = tuple(members)
    classic = tuple(
        MemberIdentity(member_id=each.member_id, group_instance_id=each.group_instance_id, reason=REMOVED)
        for each in members
        if each.protocol == CLASSIC
    )
    what = f"the members of group {group_id!r} were not removed"

    async def leave_classic() -> None:
        request = LeaveGroupRequest(group_id=group_id, members=classic)
        response = await cluster.ask_coordinator(group_id, request, LeaveGroupResponse)
        for error in (response.error_code, *(each.error_code for each in response.members)):
            _check_removed(cluster, group_id, error, what)

    async def leave_consumer(member: GroupMember) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member.member_id,
            member_epoch=LEAVE_EPOCH,
            instance_id=member.group_instance_id,
        )
        response = await cluster.ask_coordinator(group_id, request, ConsumerGroupHeartbeatResponse)
        _check_removed(cluster, group_id, response.error_code, what, response.error_message)

    async def leave_streams(member: GroupMember) -> None:
        error, message = await streams_group.leave(cluster, group_id, member.member_id)
        _check_removed(cluster, group_id, error, what, message)

    if classic:
        await cluster.retrying(leave_classic, deadline)
    for member in members:
        if member.protocol == CONSUMER:
            await cluster.retrying(lambda member=member: leave_consumer(member), deadline)  # type: ignore[misc]
        elif member.protocol == STREAMS:
            await cluster.retrying(lambda member=member: leave_streams(member), deadline)  # type: ignore[misc]


def _check_removed(cluster: Cluster, group_id: str, error: int, what: str, message: str | None = None) -> None:
    if error not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
        check_group(cluster, group_id, error, what, message)


async def _classic(cluster: Cluster, group_id: str, deadline: Deadline) -> DescribedGroup | None:
    """What DescribeGroups says; None of a group that the coordinator does not know as a classic one."""
    request = DescribeGroupsRequest(groups=(group_id,))

    async def attempt() -> DescribedGroup | None:
        [group] = (await cluster.ask_coordinator(group_id, request, DescribeGroupsResponse)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        check_group(cluster, group_id, group.error_code, f"describing group {group_id!r}", group.error_message)
        return group

    return await cluster.retrying(attempt, deadline)


async def _consumer(cluster: Cluster, group_id: str, deadline: Deadline) -> DescribedConsumerGroup | None:
    """What ConsumerGroupDescribe says; None of a group that is none, or by a broker that has none."""
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))

    async def attempt() -> DescribedConsumerGroup | None:
        [group] = (await cluster.ask_coordinator(group_id, request, ConsumerGroupDescribeResponse)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        check_group(cluster, group_id, group.error_code, f"describing group {group_id!r}", group.error_message)
        return group

    try:
        return await cluster.retrying(attempt, deadline)
    except UnsupportedApiError:
        return None
    except BrokerError as error:
        if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID):
            return None
        raise


async def _streams(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupNow | None:
    group = await streams_group.describe(cluster, group_id, deadline)
    if group is None:
        return None
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.removeprefix("/"),
            assignment=streams_group.partitions_of(member, group.topology),
            protocol=STREAMS,
            epoch=member.member_epoch,
        )
        for member in group.members
    )
    return GroupNow(group.group_state, STREAMS, STREAMS, "", members, group.group_epoch)


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER_PROTOCOL_TYPE and member.member_assignment:
        # Members may put there what they like; what cannot be read is shown as nothing.
        with suppress(InvalidInputError):
            assignment = decode_assignment(member.member_assignment)
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        assignment=assignment,
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        assignment=tuple(
            sorted(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            )
        ),
        protocol=CLASSIC if member.member_type == 0 else CONSUMER,
        epoch=member.member_epoch,
    )
