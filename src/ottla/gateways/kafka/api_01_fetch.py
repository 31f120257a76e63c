"""Fetch (key 1), versions 4 to 18.

4 isolation level; 5 log start offset; 7 sessions (KIP-227); 9 leader epoch (KIP-320); 11 rack (KIP-392); 12 flexible,
diverging epoch (KIP-595); 13 topic ids (KIP-516); 15 replica state (KIP-903); 16 node endpoints (KIP-951); 17 replica
directory (KIP-853); 18 high watermark of the replica (KIP-1166).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.broker.fetch import FetchLimits, FetchService, FetchTarget, do_all, look_ups_of
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_response import charged_response, response_of
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
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ottla.broker.fetch import PartitionRead
    from ottla.broker.replica_reader import ReplicaReader
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.network.connection import ResponseSlot
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.protocol.frame import SingleFetchRequest
    from ottla.runtime.purgatory import DelayedOperation
    from ottla.storage.log_segment import LookUp

ZSTD_VERSION: Final = 10
RACK_VERSION: Final = 11
"""From it on consumers know that a follower may serve them."""
TOPIC_ID_VERSION: Final = 13
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_NONE: Final = ErrorCode.NONE

WAITING_FETCHES_MAX: Final = 8
"""Fetches of one connection that wait for records; more are answered with what there is. Each looks at a partition
whenever that has news. Clients send one at a time."""


def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse | None:
    """Read from partitions, now or when there is enough; what lies on a disk only is looked up by a task."""
    try:
        if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            ctx.note_refusal(ErrorCode.INVALID_REQUEST, f"there is no isolation level {request.isolation_level}")
            raise ApiError(ErrorCode.INVALID_REQUEST)
        replica = _replica(ctx, request)
        session, partitions = _partitions(ctx, request, is_replica=replica is not None)
    except ApiError as error:
        return _refused(ctx, request, error.code)
    incremental = session is not None and request.session_epoch > INITIAL_EPOCH
    fetches, waiting_fetches = ctx.broker.fetches, ctx.kafka_connection.waiting_fetches
    gateway = ctx.kafka_connection.gateway
    quotas = gateway.quotas if replica is None else None
    limits = fetches.limits(
        request.max_bytes
        if quotas is None
        else quotas.fetch_bytes_max(ctx.principal, ctx.client_id, request.max_bytes),
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
        waiting = fetches.fetch(targets, limits, respond, None if replica is not None else ctx.principal)
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
            make = response_of if gateway.quotas is None or replica is not None else charged_response
            ctx.respond_parts(make(ctx, session, partitions, reads, incremental=incremental))
        except Exception as error:
            ctx.fail(error)

    look_ups = look_ups_of(targets, read_committed=limits.read_committed, is_replica=replica is not None)
    if look_ups and ctx.broker.look_ups.begin(len(targets)):
        ctx.go_on(_read_after(ctx, look_ups, len(targets), read))
    else:
        read()
    return None


def handle_single(
    connection: KafkaConnection, request: SingleFetchRequest, buffer: ReceiveBuffer, slot: ResponseSlot
) -> None:
    """Read from the only partition of a request that the kernel has read: as `handle` without a session."""
    gateway = connection.gateway
    fetches, version, read_committed = gateway.broker.fetches, request.api_version, request.read_committed
    limits = fetches.limits(
        request.max_bytes,
        request.min_bytes,
        request.max_wait_ms if len(connection.waiting_fetches) < WAITING_FETCHES_MAX else 0,
        read_committed=read_committed,
        knows_zstd=version >= ZSTD_VERSION,
        from_followers=version >= RACK_VERSION,
    )
    target = FetchTarget(
        None,
        request.fetch_offset,
        request.partition_max_bytes,
        request.current_leader_epoch,
        request.last_fetched_epoch,
        log_start_offset=request.log_start_offset,
    )
    fetches.look_up_key(connection.principal, request.key, target)
    fetch = SingleFetch(connection, request, buffer, slot, target, limits)
    look_ups = look_ups_of((target,), read_committed=read_committed)
    if look_ups and gateway.broker.look_ups.begin(1):
        ctx = fetch.context()
        ctx.go_on(_read_after(ctx, look_ups, 1, fetch.read))
    else:
        fetch.read()


class SingleFetch(Struct, eq=False):
    """One such request on its way to its answer."""

    connection: KafkaConnection
    request: SingleFetchRequest
    buffer: ReceiveBuffer
    slot: ResponseSlot
    target: FetchTarget
    limits: FetchLimits
    waiting: DelayedOperation | None = None

    def read(self) -> None:
        """Read now, or wait for enough."""
        connection = self.connection
        waiting = connection.gateway.broker.fetches.fetch(
            [self.target], self.limits, self.respond, connection.principal
        )
        if waiting is not None:
            self.waiting = waiting
            connection.waiting_fetches.add(waiting)
            if connection.has_finished:
                waiting.force_complete()

    def respond(self, reads: list[PartitionRead]) -> None:
        """Answer with what there is."""
        request, (read,) = self.request, reads
        if self.waiting is not None:
            self.connection.waiting_fetches.discard(self.waiting)
            self.waiting = None
        try:
            if read.error is _NONE and read.diverging_epoch is None and not read.aborted:
                records = read.records
                size, slices = (0, ()) if records is None else (records.total_bytes, records.slices)
                offsets = read.high_watermark, read.last_stable_offset, read.log_start_offset
                self.slot.send(request.answer(*offsets, size, slices))
            else:
                key = request.topic_name, request.topic_id, request.partition
                partitions = ((key, SessionPartition(FetchPartition())),)
                ctx = self.context()
                ctx.respond_parts(response_of(ctx, None, partitions, reads, incremental=False))
        except Exception as error:
            self.connection.fail(error, self.slot)

    def context(self) -> RequestContext:
        """The request as the general way knows it."""
        request = self.request
        return RequestContext(
            self.connection, self.slot, request.api_version, request.correlation_id, request.client_id, self.buffer
        )


def _refused(ctx: RequestContext, request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The answer to a request of which nothing is read.

    Before version 7 there is no error of the whole response, and before 13 clients look for it at the partitions. What
    is wrong with a session is no partition's.
    """
    is_of_session = request.session_epoch > INITIAL_EPOCH or ctx.api_version >= TOPIC_ID_VERSION
    return FetchResponse(
        error_code=error,
        session_id=NO_SESSION,
        responses=()
        if is_of_session
        else tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=tuple(
                    PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")
                    for index in dict.fromkeys(each.partition for each in topic.partitions)
                ),
            )
            for topic in request.topics
        ),
    )


def _replica(ctx: RequestContext, request: FetchRequest) -> ReplicaReader | None:
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
        ctx.broker.look_ups.end(count)


def _partitions(
    ctx: RequestContext, request: FetchRequest, *, is_replica: bool
) -> tuple[FetchSession | None, Sequence[tuple[PartitionKey, SessionPartition]]]:
    """The session, if any, and what this request reads: the request's own partitions or the whole session."""
    sessions = ctx.kafka_connection.gateway.fetch_sessions
    uses_topic_ids = ctx.api_version >= TOPIC_ID_VERSION
    if request.session_id != NO_SESSION and request.session_epoch > INITIAL_EPOCH:
        session = sessions.advance(
            request.session_id, request.session_epoch, ctx.principal, uses_topic_ids=uses_topic_ids
        )
        if session.is_replica is not is_replica:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the fetch session is not this one's")
        sessions.update(session, _requested(request), _forgotten(request))
        if session.partitions:
            return session, tuple(session.partitions.items())
        # Nothing is left to remember: what the request itself names is read without a session, as by Kafka.
        sessions.close(session.session_id)
        return None, _without_session(request)
    if request.session_id != NO_SESSION:
        sessions.end(request.session_id, ctx.principal)
    elif request.session_epoch > INITIAL_EPOCH:
        raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "an epoch was given without a session")
    new_session = None
    if request.session_epoch != FINAL_EPOCH and request.topics:
        new_session = sessions.create(
            _requested(request), ctx.principal, uses_topic_ids=uses_topic_ids, is_replica=is_replica
        )
    if new_session is None:
        return None, _without_session(request)
    return new_session, tuple(new_session.partitions.items())


def _without_session(request: FetchRequest) -> list[tuple[PartitionKey, SessionPartition]]:
    """A partition that is named twice is read once, as the last entry says; a session does the same."""
    return [(key, SessionPartition(partition)) for key, partition in dict(_requested(request)).items()]


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
    rules_version, by_id = fetches.rules_version, ctx.api_version >= TOPIC_ID_VERSION
    for key, partition in partitions:
        target = partition.target
        if (
            target is None
            or target.rules_version != rules_version
            or target.partition is None
            or not target.partition.is_leader
        ):
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
                rules_version=rules_version,
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


API = Api(ApiKey.FETCH, 4, 18, handle, handle_single=handle_single)
