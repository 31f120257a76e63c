"""JoinGroup (key 11), versions 0 to 9.

1 rebalance time-out (KIP-62); 4 MEMBER_ID_REQUIRED (KIP-394); 5 group instance id (KIP-345); 6 flexible; 7 protocol
type in the response (KIP-559); 8 reason (KIP-800); 9 skip assignment (KIP-814).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import JoinAnswer
from ottla.groups.members import MemberProtocol
from ottla.groups.requests import Join
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

MEMBER_ID_REQUIRED_VERSION: Final = 4
NULLABLE_PROTOCOL_VERSION: Final = 7
SKIP_ASSIGNMENT_VERSION: Final = 9

REASON_CHARACTERS_MAX: Final = 255
"""How much of a client's reason is told in the log."""


def handle(ctx: RequestContext, request: JoinGroupRequest) -> None:
    """Join, and be answered when the rebalance has come to a new generation."""
    client_id = ctx.client_id or ""
    join = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        new_member_id=ctx.broker.groups.new_member_id(request.group_instance_id or client_id),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{ctx.connection.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(MemberProtocol(each.name, each.metadata) for each in request.protocols),
        must_rejoin_with_id=ctx.api_version >= MEMBER_ID_REQUIRED_VERSION,
        may_skip_assignment=ctx.api_version >= SKIP_ASSIGNMENT_VERSION,
        reason=(request.reason or "no reason given")[:REASON_CHARACTERS_MAX],
    )

    def on_answer(answer: JoinAnswer) -> None:
        protocol_name = answer.protocol_name
        if protocol_name is None and ctx.api_version < NULLABLE_PROTOCOL_VERSION:
            protocol_name = ""
        ctx.respond(
            JoinGroupResponse(
                error_code=answer.error,
                generation_id=answer.generation_id,
                protocol_type=answer.protocol_type,
                protocol_name=protocol_name,
                leader=answer.leader_id,
                skip_assignment=answer.skip_assignment,
                member_id=answer.member_id,
                members=tuple(
                    JoinGroupResponseMember(
                        member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
                    )
                    for member in answer.members
                ),
            )
        )

    ctx.broker.groups.join(ctx.principal, join, on_answer)


API = Api(ApiKey.JOIN_GROUP, 0, 9, handle)
