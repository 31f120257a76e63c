"""DescribeProducers (key 61), version 0 (KIP-664)."""

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


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Tell which idempotent producers each partition remembers, and what it remembers last of each.

    A partition that is named twice is told once: it may have thousands of producers.
    """
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(name=name, partitions=tuple(_partition(ctx, name, index) for index in indexes))
            for name, indexes in wanted.items()
        )
    )


def _partition(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        producers = ctx.broker.active_producers.describe(ctx.principal, topic, index)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_first_offset,
            )
            for each in producers
        ),
    )


API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, handle)
