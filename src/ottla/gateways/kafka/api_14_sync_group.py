"""SyncGroup (key 14), versions 0 to 5.

3 group instance id (KIP-345); 4 flexible; 5 protocol type and name, both ways (KIP-559).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import SyncAnswer
from ottla.groups.requests import Sync
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION: Final = 5


def handle(ctx: RequestContext, request: SyncGroupRequest) -> None:
    """Fetch an assignment, and as the leader bring those of all."""
    if ctx.api_version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        ctx.respond(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    sync = Sync(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
    )

    def on_answer(answer: SyncAnswer) -> None:
        ctx.respond(
            SyncGroupResponse(
                error_code=answer.error,
                protocol_type=answer.protocol_type,
                protocol_name=answer.protocol_name,
                assignment=answer.assignment,
            )
        )

    ctx.broker.groups.sync(ctx.principal, sync, on_answer)


API = Api(ApiKey.SYNC_GROUP, 0, 5, handle)
