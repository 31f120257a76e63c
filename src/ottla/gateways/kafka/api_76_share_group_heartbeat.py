"""ShareGroupHeartbeat (key 76), version 1 (KIP-932)."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.share.exchange import ShareHeartbeat, ShareHeartbeatAnswer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def handle(ctx: RequestContext, request: ShareGroupHeartbeatRequest) -> None:
    """Join a share group, stay in it, or leave it."""

    def on_answer(answer: ShareHeartbeatAnswer) -> None:
        if answer.response is not None:
            ctx.respond(answer.response)
        else:
            ctx.respond(ShareGroupHeartbeatResponse(error_code=answer.error, error_message=answer.message))

    said = ShareHeartbeat(request, ctx.client_id or "", f"/{ctx.connection.peer.host}")
    ctx.broker.share_groups.heartbeat(ctx.principal, said, on_answer)


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, handle)
