"""Fetch (key 1), versions 4 to 18.

4 isolation level; 5 log start offset; 7 sessions (KIP-227); 9 leader epoch (KIP-320); 11 rack (KIP-392); 12 flexible,
diverging epoch (KIP-595); 13 topic ids (KIP-516); 15 replica state (KIP-903); 16 node endpoints (KIP-951); 17 replica
directory (KIP-853); 18 high watermark of the replica (KIP-1166).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.fetch import FetchService, FetchTarget, PartitionRead, do_all, look_ups_of
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.current_leaders import CurrentLeaders
from ottla.gateways.kafka.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    SessionPartition,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.runtime.purgatory import DelayedOperation
from ottla.storage.log_segment import LookUp

if TYPE_CHECKING:
    from ottla.broker.replica_reader import ReplicaReader

STORAGE_ERROR_VERSION: Final = 6
"""Before it readers hear NOT_LEADER_OR_FOLLOWER instead: they know that they can try again then (KIP-112)."""
ZSTD_VERSION: Final = 10
RACK_VERSION: Final = 11
"""From it on consumers know that a follower may serve them."""
DIVERGING_EPOCH_VERSION: Final = 12
TOPIC_ID_VERSION: Final = 13
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

WAITING_FETCHES_MAX: Final = 8
"""Fetches of one connection that wait for records; more are answered with what there is. Each looks at a partition
whenever that has news. Clients send one at a time."""


def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse | None:
    """Read from partitions, now or when there is enough; what lies on a disk only is looked up by a task."""
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        replica = _replica(ctx, request)
        session, partitions = _partitions(ctx, request, is_replica=replica is not None)
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    fetches, waiting_fetches = ctx.broker.fetches, ctx.kafka_connection.waiting_fetches
    gateway = ctx.kafka_connection.gateway
    quotas = gateway.quotas if replica is None else None
    limits = fetches.limits(
        request.max_bytes if quotas is None else quotas.fetch_bytes_max(ctx, request.max_bytes),
        request.min_bytes,
        request.max_wait_ms if len(waiting_fetches) < WAITING_FETCHES_MAX else 0,
        read_committed=request.isolation_level == READ_COMMITTED,
        knows_zstd=ctx.api_version >= ZSTD_VERSION,
        replica=replica,
        from_followers=ctx.api_version >= RACK_VERSION,
        rack=request.rack_id,
    )
    targets = _targets(ctx, fetches, partitions, has_session=session is not None)
    waiting: DelayedOperation | None = None

    def read() -> None:
        nonlocal waiting
        waiting = fetches.fetch(targets, limits, respond)
        if waiting is not None:
            waiting_fetches.add(waiting)
            if ctx.kafka_connection.has_finished:
                waiting.force_complete()

    def respond(reads: list[PartitionRead]) -> None:
        if waiting is not None:
            waiting_fetches.discard(waiting)
        try:
            if replica is not None:
                replica.charge(targets, reads)
            make = _response if gateway.quotas is None or replica is not None else _charged_response
            ctx.respond_parts(make(ctx, session, partitions, reads, incremental=incremental))
        except Exception as error:
            ctx.fail(error)

    look_ups = look_ups_of(targets, read_committed=limits.read_committed, is_replica=replica is not None)
    if look_ups and gateway.looked_up_count + len(targets) <= gateway.looked_up_max:
        gateway.looked_up_count += len(targets)
        ctx.go_on(_read_after(ctx, look_ups, len(targets), read))
    else:
        read()
    return None


def _replica(ctx: RequestContext, request: FetchRequest) -> "ReplicaReader | None":
    """The follower that fetches; None for a consumer.

    Raises ApiError CLUSTER_AUTHORIZATION_FAILED unless it has proved to be the broker that it says it is: a client's
    word is not enough. The broker epoch comes with version 15; a replica without one is not of this cluster.
    """
    state = request.replica_state
    if max(request.replica_id, state.replica_id) < 0:
        return None
    if ctx.principal != broker_principal(state.replica_id):
        ctx.note_refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it fetches as a replica")
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it fetches as a replica")
    from ottla.broker.replica_reader import ReplicaReader  # late: one broker alone has no need of it

    return ReplicaReader(state.replica_id, state.replica_epoch, ctx.broker.fetches.follower_quota)


async def _read_after(ctx: RequestContext, look_ups: Sequence[LookUp], count: int, read: Callable[[], None]) -> None:
    """Wait for the disk, then read `count` targets."""
    try:
        await ctx.broker.tasks.in_thread(do_all, look_ups)
        if not ctx.connection.is_closed:
            read()
    finally:
        ctx.kafka_connection.gateway.looked_up_count -= count


def _partitions(
    ctx: RequestContext, request: FetchRequest, *, is_replica: bool
) -> tuple[FetchSession | None, Sequence[tuple[PartitionKey, SessionPartition]]]:
    """The session, if any, and what this request reads: the request's own partitions or the whole session."""
    sessions = ctx.kafka_connection.gateway.fetch_sessions
    uses_topic_ids = ctx.api_version >= TOPIC_ID_VERSION
    if request.session_id != NO_SESSION and request.session_epoch > INITIAL_EPOCH:
        session = sessions.advance(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids)
        if session.is_replica is not is_replica:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the fetch session is not this one's")
        sessions.update(session, _requested(request), _forgotten(request))
        return session, tuple(session.partitions.items())
    if request.session_id != NO_SESSION:
        sessions.close(request.session_id)
    elif request.session_epoch > INITIAL_EPOCH:
        raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "an epoch was given without a session")
    new_session = None
    if request.session_epoch != FINAL_EPOCH and request.topics:
        new_session = sessions.create(_requested(request), uses_topic_ids=uses_topic_ids, is_replica=is_replica)
    if new_session is None:
        # A partition that is named twice is read once, as the last entry says; a session does the same.
        return None, [(key, SessionPartition(partition)) for key, partition in dict(_requested(request)).items()]
    return new_session, tuple(new_session.partitions.items())


def _requested(request: FetchRequest) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.topic, topic.topic_id, partition.partition), partition


def _forgotten(request: FetchRequest) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield topic.topic, topic.topic_id, index


def _targets(
    ctx: RequestContext,
    fetches: FetchService,
    partitions: Sequence[tuple[PartitionKey, SessionPartition]],
    *,
    has_session: bool,
) -> list[FetchTarget]:
    """Where each partition is read; a session remembers it as long as this broker leads the partition."""
    targets = []
    missing = []
    always, by_id = fetches.has_rules, ctx.api_version >= TOPIC_ID_VERSION
    for key, partition in partitions:
        target = partition.target
        if target is None or always or target.partition is None or not target.partition.is_leader:
            topic, topic_id, index = key
            request = partition.request
            target = partition.target = FetchTarget(
                None,
                request.fetch_offset,
                max(0, request.partition_max_bytes),
                request.current_leader_epoch,
                request.last_fetched_epoch,
                known_error=partition.told_error,
                log_start_offset=request.log_start_offset,
            )
            partition.told_version = -1
            fetches.look_up(ctx.principal, topic_id if by_id else topic, index, target)
            if target.partition is None:
                missing.append(target)
        targets.append(target)
    if missing and not has_session and len(missing) < len(targets):
        # Of what is not there the reader hears together with the rest, as from Kafka.
        for target in missing:
            target.known_error = target.error
    return targets


def _response(
    ctx: RequestContext,
    session: FetchSession | None,
    partitions: Sequence[tuple[PartitionKey, SessionPartition]],
    reads: Sequence[PartitionRead],
    throttle_ms: int = 0,
    *,
    incremental: bool,
) -> FetchResponse:
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


def _charged_response(
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
    verdict = gateway.quotas.fetched(ctx, sum(read.total_bytes for read in reads))
    throttle_ms = verdict.throttle_ms
    if verdict.is_served:
        return _response(ctx, session, partitions, reads, throttle_ms, incremental=incremental)
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


API = Api(ApiKey.FETCH, 4, 18, handle)
