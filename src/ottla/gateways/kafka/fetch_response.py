"""What a Fetch is answered with: what each partition gave, as far as the consumer is to hear of it."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

from ottla.broker.fetch import PartitionRead
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.current_leaders import CurrentLeaders
from ottla.gateways.kafka.fetch_session import NO_SESSION, FetchSession, PartitionKey, SessionPartition
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

STORAGE_ERROR_VERSION: Final = 6
"""Before it readers hear NOT_LEADER_OR_FOLLOWER instead: they know that they can try again then (KIP-112)."""
DIVERGING_EPOCH_VERSION: Final = 12


def response_of(
    ctx: RequestContext,
    session: FetchSession | None,
    partitions: Sequence[tuple[PartitionKey, SessionPartition]],
    reads: Sequence[PartitionRead],
    throttle_ms: int = 0,
    *,
    incremental: bool,
) -> FetchResponse:
    """The answer to a request that read these partitions and found this in them, in the same order; an `incremental`
    one, of a session, says only what is news.
    """
    data: list[tuple[tuple[str, UUID], PartitionData]] = []
    leaders: CurrentLeaders | None = None
    for (key, partition), read in zip(partitions, reads, strict=True):
        if incremental and read.version == partition.told_version >= 0 and not read.total_bytes:
            continue
        if not partition.has_news(read) and incremental:
            continue
        if session is not None and read.total_bytes and key in session.partitions:
            session.served(key)
        if read.error is ErrorCode.NONE and read.diverging_epoch is None:
            found = PartitionData(
                partition_index=key[2],
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                aborted_transactions=None if read.aborted is None else _aborted(read.aborted),
                preferred_read_replica=read.preferred_read_replica,
                records=read.records if read.records is not None else b"",
            )
        else:
            leaders = leaders or CurrentLeaders(ctx, ApiKey.FETCH)
            found = _nothing_to_read(ctx, key, read, leaders)
        data.append((key[:2], found))
    responses = tuple(
        FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(part for _, part in group))
        for (topic, topic_id), group in groupby(data, key=lambda item: item[0])
    )
    return FetchResponse(
        session_id=session.session_id if session is not None else NO_SESSION,
        responses=responses,
        throttle_time_ms=throttle_ms,
        node_endpoints=() if leaders is None else leaders.endpoints(NodeEndpoint),
    )


def charged_response(
    ctx: RequestContext,
    session: FetchSession | None,
    partitions: Sequence[tuple[PartitionKey, SessionPartition]],
    reads: Sequence[PartitionRead],
    *,
    incremental: bool,
) -> FetchResponse:
    """The answer while somebody has a quota: who is over it gets nothing, and is told nothing, for now (KIP-219)."""
    gateway = ctx.kafka_connection.gateway
    assert gateway.quotas is not None
    size = sum(read.total_bytes for read in reads)
    verdict = gateway.quotas.fetched(ctx.principal, ctx.client_id, ctx.connection, size)
    throttle_ms = verdict.throttle_ms
    if verdict.is_served:
        return response_of(ctx, session, partitions, reads, throttle_ms, incremental=incremental)
    if session is not None and incremental:
        return FetchResponse(session_id=session.session_id, throttle_time_ms=throttle_ms)
    if session is not None:
        gateway.fetch_sessions.close(session.session_id)
    return FetchResponse(session_id=NO_SESSION, throttle_time_ms=throttle_ms)


def _aborted(found: Sequence[tuple[int, int]]) -> tuple[AbortedTransaction, ...]:
    return tuple(AbortedTransaction(producer_id=each[0], first_offset=each[1]) for each in found)


def _nothing_to_read(
    ctx: RequestContext, key: PartitionKey, read: PartitionRead, leaders: CurrentLeaders
) -> PartitionData:
    """A partition that has an error, or a log that parts from the reader's."""
    topic, topic_id, index = key
    diverging = read.diverging_epoch
    error = read.error
    if error is ErrorCode.KAFKA_STORAGE_ERROR and ctx.api_version < STORAGE_ERROR_VERSION:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    # A session may have been made in a newer version than the one of this request.
    is_told_where = ctx.api_version >= DIVERGING_EPOCH_VERSION
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=(
            EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            if diverging is not None and is_told_where
            else EpochEndOffset()
        ),
        current_leader=LeaderIdAndEpoch(*leaders.of(topic, topic_id, index, error)),
        aborted_transactions=None,
        records=b"",
    )
