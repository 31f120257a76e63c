"""BrokerHeartbeat (key 63), versions 0 to 2 (KIP-631), from brokers.

1 log directories that failed (KIP-858); 2 those that take nothing new (KIP-1066), of which there are none.
"""

from ottla.broker.access import require_that_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(ctx: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse | None:
    """Hear that a broker lives, and tell it whether it may serve. It waits behind no other request."""
    try:
        require_that_broker(ctx.principal, request.broker_id)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return BrokerHeartbeatResponse(error_code=error.code)
    ctx.go_on(_hear(ctx, request))
    return None


async def _hear(ctx: RequestContext, request: BrokerHeartbeatRequest) -> None:
    try:
        answer = await ctx.broker.controller.heartbeat(
            request.broker_id,
            request.broker_epoch,
            request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shutdown=request.want_shut_down,
            offline_directories=frozenset(request.offline_log_dirs),
        )
    except ApiError as error:
        ctx.respond(BrokerHeartbeatResponse(error_code=error.code))
        return
    ctx.respond(
        BrokerHeartbeatResponse(
            is_caught_up=answer.is_caught_up, is_fenced=answer.is_fenced, should_shut_down=answer.should_shut_down
        )
    )


API = Api(ApiKey.BROKER_HEARTBEAT, 0, 2, handle, is_between_brokers=True)
