"""ShareGroupDescribe (key 77), version 1 (KIP-932)."""

from collections.abc import Callable

from msgspec.structs import replace

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.share.exchange import ShareDescribeAnswer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.runtime.gather import Gather


def handle(ctx: RequestContext, request: ShareGroupDescribeRequest) -> None:
    """Show groups and their members; one that is asked for twice is shown once."""
    group_ids = tuple(dict.fromkeys(request.group_ids))
    gather: Gather[DescribedGroup] = Gather(
        len(group_ids), lambda groups: ctx.respond(ShareGroupDescribeResponse(groups=tuple(groups)))
    )
    for index, group_id in enumerate(group_ids):
        on_answer = _on_answer(
            ctx, group_id, gather.place(index), tells_operations=request.include_authorized_operations
        )
        ctx.broker.share_groups.describe(ctx.principal, group_id, on_answer)


def _on_answer(
    ctx: RequestContext, group_id: str, put: Callable[[DescribedGroup], None], *, tells_operations: bool
) -> Callable[[ShareDescribeAnswer], None]:
    def on_answer(answer: ShareDescribeAnswer) -> None:
        if answer.group is None:
            put(DescribedGroup(group_id=group_id, error_code=answer.error, error_message=answer.message))
            return
        operations = NOT_ASKED
        if tells_operations:
            operations = operation_bits(ctx.broker.groups.allowed_operations(ctx.principal, group_id))
        put(replace(answer.group, authorized_operations=operations))

    return on_answer


API = Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, handle)
