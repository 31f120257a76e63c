"""ReadShareGroupStateSummary (key 87), versions 0 and 1 (KIP-932), from brokers."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.share_state_requests import answers_of, results
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ottla.queues.share_state_shard import StateAnswer


async def handle(ctx: RequestContext, request: ReadShareGroupStateSummaryRequest) -> ReadShareGroupStateSummaryResponse:
    """Read states without the records in them."""
    answers = await answers_of(
        ctx, request, lambda key, each, waiter: ctx.broker.share_coordinator.summary(key, waiter)
    )
    return ReadShareGroupStateSummaryResponse(tuple(results(request, answers, ReadStateSummaryResult, _result)))


def _result(partition: int, answer: StateAnswer) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=answer.error,
        error_message=answer.message,
        state_epoch=answer.state.state_epoch,
        leader_epoch=answer.state.leader_epoch,
        start_offset=answer.state.start_offset,
        delivery_complete_count=answer.state.complete_count,
    )


API = Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, handle, is_async=True, is_between_brokers=True)
