"""Fetch: what is asked of a leader and what comes back, batches as they lie in the log."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import error_code
from ottla.client.io.cluster_metadata import ClusterMetadata
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

CONSUMER_REPLICA_ID = -1
NO_SESSION_EPOCH = -1
"""A full fetch outside of any fetch session (KIP-227)."""


class FetchPosition(NamedTuple):
    """The next offset wanted of a partition, and how many bytes at most in this answer."""

    topic_partition: TopicPartition
    offset: int
    max_bytes: int


class AbortedTransaction(NamedTuple):
    """Transactional records of this producer from this offset on, up to its abort marker, are to be left out."""

    producer_id: int
    first_offset: int


class FetchedBatches(Struct, frozen=True):
    """What a leader returned for one partition.

    `records` is a run of record batches, still compressed. It may begin before `offset`, because batches are not
    split, and may end in the middle of a batch. It is empty if no record arrived within the wait.
    """

    topic_partition: TopicPartition
    offset: int
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    preferred_read_replica: int = -1
    """The broker that a leader sends the reader to, for its rack; then no records came (KIP-392)."""


class FetchWait(Struct, frozen=True):
    """How long a leader may wait for how much, and how much it may answer."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024


def fetch_request(
    positions: Iterable[FetchPosition],
    metadata: ClusterMetadata,
    wait: FetchWait,
    isolation: IsolationLevel,
    rack: str = "",
) -> FetchRequest:
    """The request for these positions, all led by one broker."""
    topics: dict[str, list[FetchPartition]] = {}
    for position in positions:
        known = metadata.leader(position.topic_partition)
        topics.setdefault(position.topic_partition.topic, []).append(
            FetchPartition(
                partition=position.topic_partition.partition,
                current_leader_epoch=known.leader_epoch if known is not None else -1,
                fetch_offset=position.offset,
                partition_max_bytes=position.max_bytes,
            )
        )
    return FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=wait.max_wait_ms,
        min_bytes=wait.min_bytes,
        max_bytes=wait.max_bytes,
        isolation_level=isolation,
        session_epoch=NO_SESSION_EPOCH,
        topics=tuple(
            FetchTopic(topic=name, topic_id=metadata.topic_id(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        rack_id=rack,
    )


def fetched(response: FetchResponse, request: FetchRequest) -> list[FetchedBatches]:
    """The answer partition by partition; those that were not asked for are left out.

    Answers that name topics by id alone get the names the request had.
    """
    names = {topic.topic_id: topic.topic for topic in request.topics}
    offsets = {
        TopicPartition(topic.topic, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }
    found = []
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            topic_partition = TopicPartition(name, partition.partition_index)
            if topic_partition in offsets:
                found.append(_fetched_batches(topic_partition, offsets[topic_partition], partition))
    return found


def _fetched_batches(topic_partition: TopicPartition, offset: int, answer: PartitionData) -> FetchedBatches:
    records = answer.records
    assert records is None or isinstance(records, memoryview)
    return FetchedBatches(
        topic_partition=topic_partition,
        offset=offset,
        records=records if records is not None else memoryview(b""),
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted=tuple(
            AbortedTransaction(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
        ),
        error=error_code(answer.error_code),
        preferred_read_replica=answer.preferred_read_replica,
    )
