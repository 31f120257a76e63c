"""DescribeHistory (key 31002), version 0: what became of one record in a share group, from the leader of its partition.

Kafka has no such API. Only Ottla's own client is told of it.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_history import DescribeHistoryRequest, DescribeHistoryResponse, EventResponse


async def handle(ctx: RequestContext, request: DescribeHistoryRequest) -> DescribeHistoryResponse:
    """Tell what this broker and those before it noted of the record: nothing where the group has no history."""
    fetches, place = ctx.broker.share_fetches, (request.topic_id, request.partition_index)
    try:
        fetches.require_describe(ctx.principal, request.group_id)
        kept_ms, events = await fetches.partitions.history(ctx.principal, request.group_id, place, request.offset)
    except ApiError as error:
        return DescribeHistoryResponse(error_code=error.code, error_message=error.message)
    return DescribeHistoryResponse(
        kept_ms=kept_ms,
        events=tuple(
            EventResponse(time_ms=each.at_ms, what=each.what, deliveries=each.deliveries, member_id=each.member_id)
            for each in events
        ),
    )


API = Api(ApiKey.DESCRIBE_HISTORY, 0, 0, handle, is_async=True)
