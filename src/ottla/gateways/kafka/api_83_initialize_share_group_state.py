"""InitializeShareGroupState (key 83), version 0 (KIP-932), from brokers."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.share_state_requests import answers_of, results
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from ottla.queues.share_state_shard import StateAnswer


async def handle(ctx: RequestContext, request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
    """Make the states of share partitions, or begin them anew."""
    answers = await answers_of(
        ctx,
        request,
        lambda key, each, waiter: ctx.broker.share_coordinator.initialize(
            key, each.state_epoch, each.start_offset, waiter
        ),
    )
    return InitializeShareGroupStateResponse(tuple(results(request, answers, InitializeStateResult, _result)))


def _result(partition: int, answer: StateAnswer) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=answer.error,
        error_message=answer.message,
    )


API = Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, handle, is_async=True, is_between_brokers=True)
