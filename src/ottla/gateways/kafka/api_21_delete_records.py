"""DeleteRecords (key 21), versions 0 to 2 (KIP-107).

1 the same as 0; 2 flexible. Kafka waits for the followers as long as the request's time-out; here the log start is on
disk when the answer leaves, and nobody else has to follow.
"""

from typing import Final

from ottla.broker.record_deletion import RecordsBefore
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK: Final = -1


async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete the records of each partition before an offset."""
    outcomes = iter(
        await ctx.broker.record_deletion.delete(
            [
                RecordsBefore(topic.name, partition.partition_index, partition.offset)
                for topic in request.topics
                for partition in topic.partitions
            ]
        )
    )
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_result(partition.partition_index, next(outcomes)) for partition in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _result(index: int, outcome: Outcome[int]) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ApiError):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=outcome.code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)


API = Api(ApiKey.DELETE_RECORDS, 0, 2, handle)
