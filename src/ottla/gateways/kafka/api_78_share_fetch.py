"""ShareFetch (key 78), versions 1 and 2 (KIP-932).

2 the acquire mode (KIP-1206), renewal of acquired records (KIP-1222).
"""

from typing import Final
from uuid import UUID

from ottla.broker.share_fetches import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    PartitionAcknowledgements,
    ShareSession,
)
from ottla.broker.share_partitions import Place
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.current_leaders import CurrentLeaders
from ottla.gateways.kafka.share_acknowledgements import acknowledgements_of
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

WHOLE_BATCHES, RECORD_LIMIT = 0, 1
"""The acquire modes: whole batches, or at most `MaxRecords`."""
WAIT_MS_MAX: Final = 300_000


def handle(ctx: RequestContext, request: ShareFetchRequest) -> None:
    """Settle what was delivered before, then deliver more."""
    ctx.go_on(_serve(ctx, request))


async def _serve(ctx: RequestContext, request: ShareFetchRequest) -> None:
    fetches = ctx.broker.share_fetches
    try:
        group_id, member_id = fetches.require_member(ctx.principal, request.group_id, request.member_id)
        _require_valid(request)
        given, failures = _acknowledgements(ctx, request, group_id)
        session = fetches.session(
            group_id,
            member_id,
            request.share_session_epoch,
            ctx.kafka_connection,
            has_acknowledgements=bool(given or failures),
        )
        ctx.kafka_connection.has_share_sessions = True
        forgotten = [
            (each.topic_id, partition) for each in request.forgotten_topics_data for partition in each.partitions
        ]
        if request.share_session_epoch != FINAL_EPOCH:
            named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
            # A session that begins has nothing to forget.
            fetches.change(session, named, () if request.share_session_epoch == INITIAL_EPOCH else forgotten)
    except ApiError as error:
        ctx.respond(ShareFetchResponse(error_code=error.code, error_message=error.message))
        return
    acknowledged = await fetches.acknowledge(ctx.principal, session, given)
    acknowledged.update(failures)
    fetched: list[FetchedPartition] = []
    if request.share_session_epoch == FINAL_EPOCH:
        fetches.end(session)
    elif not request.is_renew_ack and not ctx.connection.is_closed:
        fetched = await fetches.fetch(
            ctx.principal,
            session,
            # Who settled something is told so at once.
            max_wait_ms=0 if acknowledged else max(0, min(request.max_wait_ms, WAIT_MS_MAX)),
            max_bytes=request.max_bytes,
            max_records=request.max_records,
            exact=request.share_acquire_mode == RECORD_LIMIT,
            batch_size=request.batch_size,
        )
    ctx.respond_parts(_response(ctx, session, fetched, acknowledged))


def _require_valid(request: ShareFetchRequest) -> None:
    """Raises ApiError INVALID_REQUEST."""
    if request.share_acquire_mode not in (WHOLE_BATCHES, RECORD_LIMIT):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the acquire mode is 0 or 1, not {request.share_acquire_mode}")
    if request.is_renew_ack and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "a request that renews fetches nothing: MaxBytes, MinBytes, MaxRecords and MaxWaitMs are 0",
        )


def _acknowledgements(
    ctx: RequestContext, request: ShareFetchRequest, group_id: str
) -> tuple[list[PartitionAcknowledgements], dict[Place, ErrorCode]]:
    may_renew = request.is_renew_ack and ctx.broker.share_fetches.may_renew(group_id)
    given: list[PartitionAcknowledgements] = []
    failures: dict[Place, ErrorCode] = {}
    for topic in request.topics:
        for each in topic.partitions:
            if not each.acknowledgement_batches:
                continue
            try:
                batches = each.acknowledgement_batches
                given.append(acknowledgements_of(topic.topic_id, each.partition_index, batches, may_renew=may_renew))
            except ApiError as error:
                ctx.note_refusal(error.code, error.message)
                failures[topic.topic_id, each.partition_index] = error.code
    return given, failures


def _response(
    ctx: RequestContext,
    session: ShareSession,
    fetched: list[FetchedPartition],
    acknowledged: dict[Place, ErrorCode],
) -> ShareFetchResponse:
    leaders = CurrentLeaders(ctx, ApiKey.SHARE_FETCH)
    by_place = {each.place: each for each in fetched}
    topics: dict[UUID, list[PartitionData]] = {}
    for place in dict.fromkeys((*by_place, *acknowledged)):
        topic_id, index = place
        found = by_place.get(place)
        acknowledge_error = acknowledged.get(place, ErrorCode.NONE)
        error = ErrorCode.NONE if found is None else found.error
        leader = leaders.of("", topic_id, index, error if error is not ErrorCode.NONE else acknowledge_error)
        acquired = None if found is None else found.acquired
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=index,
                error_code=error,
                acknowledge_error_code=acknowledge_error,
                current_leader=LeaderIdAndEpoch(*leader),
                records=b"" if acquired is None else acquired.records,
                acquired_records=() if acquired is None else tuple(AcquiredRecords(*run) for run in acquired.runs),
            )
        )
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=ctx.broker.share_fetches.lock_ms(session.group_id),
        responses=tuple(ShareFetchableTopicResponse(topic_id, tuple(each)) for topic_id, each in topics.items()),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


API = Api(ApiKey.SHARE_FETCH, 1, 2, handle)
