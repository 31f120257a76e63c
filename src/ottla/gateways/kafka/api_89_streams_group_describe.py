"""StreamsGroupDescribe (key 89), version 0.

0 the streams rebalance protocol (KIP-1071).
"""

from collections.abc import Callable

from msgspec.structs import replace

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.streams.exchange import StreamsDescribeAnswer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.runtime.gather import Gather


def handle(ctx: RequestContext, request: StreamsGroupDescribeRequest) -> None:
    """Show groups, their topologies and members; one that is asked for twice is shown once."""
    group_ids = tuple(dict.fromkeys(request.group_ids))
    gather: Gather[DescribedGroup] = Gather(
        len(group_ids), lambda groups: ctx.respond(StreamsGroupDescribeResponse(groups=tuple(groups)))
    )
    for index, group_id in enumerate(group_ids):
        put = gather.place(index)
        ctx.broker.streams_groups.describe(
            ctx.principal,
            group_id,
            _on_answer(ctx, group_id, put, tells_operations=request.include_authorized_operations),
        )


def _on_answer(
    ctx: RequestContext, group_id: str, put: Callable[[DescribedGroup], None], *, tells_operations: bool
) -> Callable[[StreamsDescribeAnswer], None]:
    def on_answer(answer: StreamsDescribeAnswer) -> None:
        if answer.group is None:
            put(DescribedGroup(group_id=group_id, error_code=answer.error, error_message=answer.message))
            return
        operations = NOT_ASKED
        if tells_operations:
            operations = operation_bits(ctx.broker.groups.allowed_operations(ctx.principal, group_id))
        put(replace(answer.group, authorized_operations=operations))

    return on_answer


API = Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, handle)
