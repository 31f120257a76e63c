"""Where a partition begins and ends, and which offset a point in time has."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NO_OFFSET = -1


class OffsetAt(IntEnum):
    """Points that ListOffsets accepts besides timestamps (ms since 1970)."""

    LATEST = -1
    """The offset the next record will get; with `read_committed`, the last stable offset."""
    EARLIEST = -2
    """The first offset that is still there."""
    MAX_TIMESTAMP = -3
    """The record with the highest timestamp."""


class IsolationLevel(IntEnum):
    """Whether a consumer sees records of transactions that are not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ListedOffset(NamedTuple):
    """An offset and the timestamp of its record; `offset` is -1 when no record is that young.

    The timestamp is -1 for `EARLIEST` and `LATEST`.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    at: Mapping[TopicPartition, int],
    deadline: Deadline,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """For each partition the first offset whose record is at or after a timestamp, or the special points of `OffsetAt`.

    Asks all leaders at the same time, and repeats failed requests after retriable errors. Raises TopicNotFoundError
    and BrokerError.
    """
    found: dict[TopicPartition, ListedOffset] = {}

    async def attempt() -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for topic_partition, timestamp in at.items():
            if topic_partition not in found:
                leader = (await cluster.leader(topic_partition, deadline)).leader
                by_leader.setdefault(leader, {})[topic_partition] = timestamp
        answers = await cluster.io.together(
            [_ask_leader(cluster, leader, wanted, deadline, isolation) for leader, wanted in by_leader.items()]
        )
        failed: ErrorCode | None = None
        for answer in answers:
            for topic_partition, (code, listed) in answer.items():
                if code == ErrorCode.NONE:
                    found[topic_partition] = listed
                else:
                    cluster.metadata.forget_topic(topic_partition.topic)
                    failed = code
        if failed is not None:
            raise broker_error(failed, "looking up offsets")

    await cluster.retrying(attempt, deadline)
    return found


async def _ask_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], deadline: Deadline, isolation: IsolationLevel
) -> dict[TopicPartition, tuple[ErrorCode, ListedOffset]]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic_partition, timestamp in wanted.items():
        known = cluster.metadata.leader(topic_partition)
        epoch = known.leader_epoch if known is not None else -1
        topics.setdefault(topic_partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=topic_partition.partition, current_leader_epoch=epoch, timestamp=timestamp
            )
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
        timeout_ms=min(deadline.left_ms, cluster.options.request_timeout_ms),
    )
    response = await cluster.ask_node(leader, request, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, each.partition_index): (
            ErrorCode(each.error_code),
            ListedOffset(each.offset, each.timestamp, each.leader_epoch),
        )
        for topic in response.topics
        for each in topic.partitions
    }
