"""The offsets a consumer group has committed: read them, and write them with or without being a member."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.arguments import INT64_MAX, pairs_of, partition_of, whole_number
from ottla.client.errors import BrokerError, GroupNotFoundError, TopicNotFoundError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
NO_GENERATION = -1


class CommittedOffset(NamedTuple):
    """The next offset a group will read of a partition, with the note that was committed with it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Membership(NamedTuple):
    """As whom offsets are committed; the default is nobody, which is allowed while the group has no members."""

    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


NO_MEMBER = Membership()


def offsets_to_commit(given: Any) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that a caller passes: numbers or CommittedOffsets by partition. Raises InvalidOptionError."""
    pairs = pairs_of("offsets", given, "partitions and offsets, such as {TopicPartition('orders', 0): 42}")
    found = {}
    for each, offset in pairs.items():
        partition = partition_of(each)
        committed = offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
        whole_number(f"the offset of {partition}", committed.offset, 0, INT64_MAX)
        found[partition] = committed
    return found


async def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None, deadline: Deadline
) -> dict[TopicPartition, CommittedOffset]:
    """What the group has committed, for these partitions or for all; partitions without an offset are left out."""
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for topic_partition in partitions:
            by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        topics = tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=tuple(numbers)) for name, numbers in by_topic.items()
        )
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group_id, topics=topics),), require_stable=True
    )

    async def attempt() -> dict[TopicPartition, CommittedOffset]:
        response = await cluster.ask_coordinator(group_id, request, OffsetFetchResponse)
        what = f"reading the offsets of group {group_id!r}"
        found: dict[TopicPartition, CommittedOffset] = {}
        for group in response.groups:
            check_group(cluster, group_id, group.error_code, what)
            for topic in group.topics:
                for each in topic.partitions:
                    check_group(cluster, group_id, each.error_code, what)
                    if each.committed_offset >= 0:
                        found[TopicPartition(topic.name, each.partition_index)] = CommittedOffset(
                            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                        )
        return found

    return await cluster.retrying(attempt, deadline)


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    deadline: Deadline,
    member: Membership = NO_MEMBER,
) -> None:
    """Commit for the group, all or some: the error of the first partition that was refused is raised at the end.

    Raises TopicNotFoundError at once for a deleted topic, which must not delay its consumer, and BrokerError.
    UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS and FENCED_INSTANCE_ID mean that the membership is no
    longer valid.
    """
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic_partition, committed in offsets.items():
        by_topic.setdefault(topic_partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=topic_partition.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, partitions=tuple(partitions)) for name, partitions in by_topic.items()
        ),
    )

    async def attempt() -> None:
        response = await cluster.ask_coordinator(group_id, request, OffsetCommitResponse)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise TopicNotFoundError(topic.name, each.partition_index)
                what = f"committing offsets of {topic.name}-{each.partition_index} for group {group_id!r}"
                check_group(cluster, group_id, each.error_code, what)

    if by_topic:
        await cluster.retrying(attempt, deadline)


def check_group(cluster: Cluster, group_id: str, number: int, what: str, message: str | None = None) -> None:
    """Raise the exception for an error code from a coordinator, and look for another one when it says it is not it."""
    if not number:
        return
    error: BrokerError = broker_error(number, what, message)
    if error.code in COORDINATOR_MOVED:
        cluster.forget_coordinator(group_id)
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise GroupNotFoundError(group_id)
    raise error
