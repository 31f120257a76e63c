"""DeleteRecords (key 21), versions 0 to 2 (KIP-107).

1 the same as 0; 2 flexible. When the answer leaves, the log start is on disk, and every replica that is alive begins
there; that is waited for as long as the time-out of the request.
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
    """Delete the records of each partition before an offset; of a partition that is named twice the last one counts."""
    wanted = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    outcomes = await ctx.broker.record_deletion.delete(
        ctx.principal,
        [RecordsBefore(topic, index, offset) for (topic, index), offset in wanted.items()],
        request.timeout_ms,
    )
    results: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for (topic, index), outcome in zip(wanted, outcomes, strict=True):
        results.setdefault(topic, []).append(_result(index, outcome))
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(name=topic, partitions=tuple(partitions)) for topic, partitions in results.items()
        )
    )


def _result(index: int, outcome: Outcome[int]) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ApiError):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=outcome.code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)


API = Api(ApiKey.DELETE_RECORDS, 0, 2, handle, is_async=True, after_responses=True)
