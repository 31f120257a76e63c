"""AlterPartition (key 56), version 3 (KIP-497), from brokers.

3 each proposed member with its broker epoch (KIP-903), without which one that was started anew could be taken for in
sync: so version 2 is not served.
"""

from collections.abc import Sequence

from ottla.broker.access import require_that_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.records import PartitionState
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionResult,
    TopicResult,
)


def handle(ctx: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse | None:
    """Change the ISR of partitions as their leader proposes. It waits behind no other request."""
    try:
        require_that_broker(ctx.principal, request.broker_id)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return AlterPartitionResponse(error_code=error.code)
    ctx.go_on(_alter(ctx, request))
    return None


async def _alter(ctx: RequestContext, request: AlterPartitionRequest) -> None:
    proposals = [
        PartitionProposal(
            topic.topic_id,
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            tuple((member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        outcomes = await ctx.broker.controller.alter_partition(request.broker_id, request.broker_epoch, proposals)
    except ApiError as error:
        ctx.respond(AlterPartitionResponse(error_code=error.code))
        return
    ctx.respond(_response(request, outcomes))


def _response(request: AlterPartitionRequest, outcomes: Sequence[Outcome[PartitionState]]) -> AlterPartitionResponse:
    remaining = iter(outcomes)
    return AlterPartitionResponse(
        topics=tuple(
            TopicResult(
                topic.topic_id,
                tuple(_result(each.partition_index, next(remaining)) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _result(index: int, outcome: Outcome[PartitionState]) -> PartitionResult:
    if isinstance(outcome, ApiError):
        return PartitionResult(index, outcome.code)
    return PartitionResult(
        index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=tuple(outcome.isr),
        partition_epoch=outcome.partition_epoch,
    )


API = Api(ApiKey.ALTER_PARTITION, 3, 3, handle, is_between_brokers=True)
