"""DescribeDeliveries (key 31000), version 0: what a share group has in flight, at the leaders of the partitions.

Kafka has no such API. Only Ottla's own client is told of it.
"""

from uuid import UUID

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_deliveries import (
    DescribeDeliveriesRequest,
    DescribeDeliveriesResponse,
    PartitionResponse,
    TopicResponse,
)
from ottla.queues.deliveries import Deliveries
from ottla.runtime.turns import next_turn


async def handle(ctx: RequestContext, request: DescribeDeliveriesRequest) -> DescribeDeliveriesResponse:
    """Tell of each partition; one that no member has fetched from since the broker leads it is not loaded."""
    fetches = ctx.broker.share_fetches
    try:
        fetches.require_describe(ctx.principal, request.group_id)
    except ApiError as error:
        return DescribeDeliveriesResponse(error_code=error.code, error_message=error.message)
    topics = []
    for topic in request.topics:
        partitions = []
        for index in dict.fromkeys(topic.partition_indexes):
            partitions.append(_partition(ctx, request.group_id, topic.topic_id, index))
            await next_turn()  # each may have a million records in flight
        topics.append(TopicResponse(topic_id=topic.topic_id, partitions=tuple(partitions)))
    consumers = fetches.partitions.consumers(request.group_id)
    return DescribeDeliveriesResponse(consumers=consumers, topics=tuple(topics))


def _partition(ctx: RequestContext, group_id: str, topic_id: UUID, index: int) -> PartitionResponse:
    try:
        found = ctx.broker.share_fetches.partitions.deliveries(ctx.principal, group_id, (topic_id, index))
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    if found is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, is_loaded=False)
    return _answer(index, found)


def _answer(index: int, found: Deliveries) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        is_loaded=True,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        high_watermark=found.high_watermark,
        unfinished=found.unfinished,
        in_flight=found.in_flight,
        waiting=found.waiting,
        returned=found.returned,
        redelivered=found.redelivered,
        deliveries_most=found.deliveries_most,
        accepted=found.accepted,
        archived=found.archived,
        oldest_offset=found.oldest_offset,
        oldest_deliveries=found.oldest_deliveries,
        oldest_holder=found.oldest_holder,
    )


API = Api(ApiKey.DESCRIBE_DELIVERIES, 0, 0, handle, is_async=True)
