"""StreamsGroupHeartbeat (key 88), version 0.

0 the streams rebalance protocol (KIP-1071).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.streams.exchange import StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


def handle(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> None:
    """Join, say what one has, hear what one is to have, or leave."""

    def on_answer(answer: StreamsHeartbeatAnswer) -> None:
        if answer.response is not None:
            ctx.respond(answer.response)
        else:
            ctx.respond(StreamsGroupHeartbeatResponse(error_code=answer.error, error_message=answer.message))

    said = StreamsHeartbeat(request, ctx.client_id or "", f"/{ctx.connection.peer.host}")
    ctx.broker.streams_groups.heartbeat(ctx.principal, said, on_answer)


API = Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, handle)
