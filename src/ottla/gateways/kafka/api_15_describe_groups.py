"""DescribeGroups (key 15), versions 0 to 6.

3 authorized operations (KIP-430); 4 group instance id (KIP-345); 5 flexible; 6 GROUP_ID_NOT_FOUND, an error message
(KIP-1043).
"""

from collections.abc import Callable
from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import DescribeAnswer
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.runtime.gather import Gather

NOT_FOUND_VERSION: Final = 6


def handle(ctx: RequestContext, request: DescribeGroupsRequest) -> None:
    """Show groups and their members; one that is asked for twice is shown once."""
    group_ids = tuple(dict.fromkeys(request.groups))
    gather: Gather[DescribedGroup] = Gather(
        len(group_ids), lambda groups: ctx.respond(DescribeGroupsResponse(groups=tuple(groups)))
    )
    for index, group_id in enumerate(group_ids):
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = operation_bits(ctx.broker.groups.allowed_operations(ctx.principal, group_id))
        ctx.broker.groups.describe(ctx.principal, group_id, _on_answer(ctx, group_id, operations, gather.place(index)))


def _on_answer(
    ctx: RequestContext, group_id: str, operations: int, put: Callable[[DescribedGroup], None]
) -> Callable[[DescribeAnswer], None]:
    def on_answer(answer: DescribeAnswer) -> None:
        error, message = answer.error, None
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            if ctx.api_version >= NOT_FOUND_VERSION:
                message = answer.message
            else:
                error = ErrorCode.NONE
        put(
            DescribedGroup(
                error_code=error,
                error_message=message,
                group_id=group_id,
                group_state=answer.state,
                protocol_type=answer.protocol_type,
                protocol_data=answer.protocol_name,
                members=tuple(
                    DescribedGroupMember(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        member_metadata=member.metadata,
                        member_assignment=member.assignment,
                    )
                    for member in answer.members
                ),
                authorized_operations=operations if error is ErrorCode.NONE else NOT_ASKED,
            )
        )

    return on_answer


API = Api(ApiKey.DESCRIBE_GROUPS, 0, 6, handle)
