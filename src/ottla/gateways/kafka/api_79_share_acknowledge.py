"""ShareAcknowledge (key 79), versions 1 and 2 (KIP-932).

2 renewal of acquired records (KIP-1222).
"""

from uuid import UUID

from ottla.broker.share_fetches import FINAL_EPOCH, INITIAL_EPOCH, PartitionAcknowledgements
from ottla.broker.share_partitions import Place
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.current_leaders import CurrentLeaders
from ottla.gateways.kafka.share_acknowledgements import acknowledgements_of
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(ctx: RequestContext, request: ShareAcknowledgeRequest) -> None:
    """Settle what was delivered before."""
    ctx.go_on(_serve(ctx, request))


async def _serve(ctx: RequestContext, request: ShareAcknowledgeRequest) -> None:
    fetches = ctx.broker.share_fetches
    given: list[PartitionAcknowledgements] = []
    results: dict[Place, ErrorCode] = {}
    try:
        group_id, member_id = fetches.require_member(ctx.principal, request.group_id, request.member_id)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share session begins with ShareFetch")
        session = fetches.session(
            group_id, member_id, request.share_session_epoch, ctx.kafka_connection, has_acknowledgements=True
        )
    except ApiError as error:
        ctx.respond(ShareAcknowledgeResponse(error_code=error.code, error_message=error.message))
        return
    may_renew = request.is_renew_ack and fetches.may_renew(group_id)
    for topic in request.topics:
        for each in topic.partitions:
            if not each.acknowledgement_batches:
                continue
            try:
                batches = each.acknowledgement_batches
                given.append(acknowledgements_of(topic.topic_id, each.partition_index, batches, may_renew=may_renew))
            except ApiError as error:
                ctx.note_refusal(error.code, error.message)
                results[topic.topic_id, each.partition_index] = error.code
    results.update(await fetches.acknowledge(ctx.principal, session, given))
    if request.share_session_epoch == FINAL_EPOCH:
        fetches.end(session)
    leaders = CurrentLeaders(ctx, ApiKey.SHARE_ACKNOWLEDGE)
    topics: dict[UUID, list[PartitionData]] = {}
    for (topic_id, index), code in results.items():
        leader = LeaderIdAndEpoch(*leaders.of("", topic_id, index, code))
        data = PartitionData(partition_index=index, error_code=code, current_leader=leader)
        topics.setdefault(topic_id, []).append(data)
    ctx.respond(
        ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=fetches.lock_ms(group_id),
            responses=tuple(ShareAcknowledgeTopicResponse(topic_id, tuple(each)) for topic_id, each in topics.items()),
            node_endpoints=leaders.endpoints(NodeEndpoint),
        )
    )


API = Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, handle)
