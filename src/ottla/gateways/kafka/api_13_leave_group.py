"""LeaveGroup (key 13), versions 0 to 5.

3 many members, and static ones by their instance id (KIP-345); 4 flexible; 5 reason (KIP-800).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import LeaveAnswer
from ottla.groups.requests import Leave, LeavingMember
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

MANY_MEMBERS_VERSION: Final = 3

REASON_CHARACTERS_MAX: Final = 255
"""How much of a member's reason is told in the log."""


def handle(ctx: RequestContext, request: LeaveGroupRequest) -> None:
    """Take one or many members out."""
    many = ctx.api_version >= MANY_MEMBERS_VERSION
    if many:
        members = tuple(
            LeavingMember(
                each.member_id, each.group_instance_id, (each.reason or "no reason given")[:REASON_CHARACTERS_MAX]
            )
            for each in request.members
        )
    else:
        members = (LeavingMember(request.member_id),)

    def on_answer(answer: LeaveAnswer) -> None:
        if many:
            ctx.respond(
                LeaveGroupResponse(
                    error_code=answer.error,
                    members=tuple(
                        MemberResponse(
                            member_id=each.member_id, group_instance_id=each.instance_id, error_code=each.error
                        )
                        for each in answer.members
                    ),
                )
            )
        else:
            # The one member's error stands for the whole.
            error = answer.error if answer.error is not ErrorCode.NONE else answer.members[0].error
            ctx.respond(LeaveGroupResponse(error_code=error))

    ctx.broker.groups.leave(ctx.principal, Leave(request.group_id, members), on_answer)


API = Api(ApiKey.LEAVE_GROUP, 0, 5, handle)
