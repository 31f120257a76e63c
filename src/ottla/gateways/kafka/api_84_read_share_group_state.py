"""ReadShareGroupState (key 84), version 0 (KIP-932), from brokers."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.share_state_requests import answers_of, results
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from ottla.queues.share_state_shard import StateAnswer


async def handle(ctx: RequestContext, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    """Read states for the leader of their partitions."""
    answers = await answers_of(
        ctx, request, lambda key, each, waiter: ctx.broker.share_coordinator.read(key, each.leader_epoch, waiter)
    )
    return ReadShareGroupStateResponse(tuple(results(request, answers, ReadStateResult, _result)))


def _result(partition: int, answer: StateAnswer) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=answer.error,
        error_message=answer.message,
        state_epoch=answer.state.state_epoch,
        start_offset=answer.state.start_offset,
        state_batches=tuple(StateBatch(*batch) for batch in answer.state.batches),
    )


API = Api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, handle, is_async=True, is_between_brokers=True)
