"""DescribeProducers (key 61), version 0 (KIP-664)."""

from collections.abc import Iterable

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.runtime.turns import Pace, next_turn
from ottla.storage.producer_state import ProducerState as RememberedProducer


async def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Tell which idempotent producers each partition remembers, and what it remembers last of each.

    A partition that is named twice is told once: it may have thousands of producers.
    """
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics, pace = [], Pace()
    for name, indexes in wanted.items():
        partitions = []
        for index in indexes:
            partitions.append(await _partition(ctx, name, index, pace))
            if pace.is_enough():
                await next_turn()
        topics.append(TopicResponse(name=name, partitions=tuple(partitions)))
    return DescribeProducersResponse(topics=tuple(topics))


async def _partition(ctx: RequestContext, topic: str, index: int, pace: Pace) -> PartitionResponse:
    try:
        producers = ctx.broker.active_producers.describe(ctx.principal, topic, index)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(partition_index=index, active_producers=await _states(tuple(producers), pace))


async def _states(producers: Iterable[RememberedProducer], pace: Pace) -> tuple[ProducerState, ...]:
    states = []
    for each in producers:
        states.append(
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_first_offset,
            )
        )
        if pace.is_enough():
            await next_turn()
    return tuple(states)


API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, handle, is_async=True)
