"""WriteShareGroupState (key 85), versions 0 and 1 (KIP-932), from brokers."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.share_state_requests import answers_of, results
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import StateAnswer, WriteState
from ottla.queues.state_batches import StateBatch


async def handle(ctx: RequestContext, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
    """Write what changed in states."""
    answers = await answers_of(
        ctx, request, lambda key, each, waiter: ctx.broker.share_coordinator.write(_write(key, each), waiter)
    )
    return WriteShareGroupStateResponse(tuple(results(request, answers, WriteStateResult, _result)))


def _write(key: ShareKey, each: PartitionData) -> WriteState:
    return WriteState(
        key,
        each.state_epoch,
        each.leader_epoch,
        each.start_offset,
        each.delivery_complete_count,
        tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count, b.not_before)
            for b in each.state_batches
        ),
    )


def _result(partition: int, answer: StateAnswer) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        error_code=answer.error,
        error_message=answer.message,
    )


API = Api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, handle, is_async=True, is_between_brokers=True)
