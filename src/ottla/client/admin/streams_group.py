"""Streams groups (KIP-1071) as a coordinator describes them, and how a member is taken out of one."""

from ottla.client.consuming.group_offsets import check_group
from ottla.client.errors import BrokerError, UnsupportedApiError
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

LEAVE_EPOCH = -1


async def describe(cluster: Cluster, group_id: str, deadline: Deadline) -> DescribedGroup | None:
    """What StreamsGroupDescribe says; None of a group that is not there, or by a broker without any.

    Raises BrokerError.
    """
    request = StreamsGroupDescribeRequest(group_ids=(group_id,))

    async def attempt() -> DescribedGroup | None:
        [group] = (await cluster.ask_coordinator(group_id, request, StreamsGroupDescribeResponse)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        check_group(cluster, group_id, group.error_code, f"describing group {group_id!r}", group.error_message)
        return group

    try:
        return await cluster.retrying(attempt, deadline)
    except UnsupportedApiError:
        return None
    except BrokerError as error:
        if error.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise


def partitions_of(member: Member, topology: Topology | None) -> tuple[TopicPartition, ...]:
    """The partitions that a member reads: of each active task those of the topics of its subtopology.

    A topic with fewer partitions than the largest of its subtopology has not all of them.
    """
    topics: dict[str, list[str]] = {}
    for subtopology in () if topology is None else topology.subtopologies or ():
        topics[subtopology.subtopology_id] = [
            *subtopology.source_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
        ]
    return tuple(
        sorted(
            TopicPartition(topic, index)
            for task in member.assignment.active_tasks
            for topic in topics.get(task.subtopology_id, ())
            for index in task.partitions
        )
    )


async def leave(cluster: Cluster, group_id: str, member_id: str) -> tuple[int, str | None]:
    """Take a member out; the error code and message of the answer."""
    request = StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
    response = await cluster.ask_coordinator(group_id, request, StreamsGroupHeartbeatResponse)
    return response.error_code, response.error_message
