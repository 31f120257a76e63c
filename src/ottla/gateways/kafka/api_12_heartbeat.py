"""Heartbeat (key 12), versions 0 to 4.

3 group instance id (KIP-345); 4 flexible.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.requests import Heartbeat
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(ctx: RequestContext, request: HeartbeatRequest) -> None:
    """Keep a member's session."""
    ctx.broker.groups.heartbeat(
        ctx.principal,
        Heartbeat(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
        ),
        lambda answer: ctx.respond(HeartbeatResponse(error_code=answer.error)),
    )


API = Api(ApiKey.HEARTBEAT, 0, 4, handle)
