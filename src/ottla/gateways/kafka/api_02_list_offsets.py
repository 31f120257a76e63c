"""ListOffsets (key 2), versions 1 to 11.

2 isolation level; 4 leader epoch (KIP-320); 5 offset not available (KIP-207); 6 flexible; 7 max timestamp, -3
(KIP-734); 8 earliest local offset, -4 (KIP-405); 9 latest tiered offset, -5 (KIP-1005); 10 time-out (KIP-1075);
11 earliest pending upload, -6 (KIP-1023).
"""

from collections import Counter
from typing import Final

from ottla.broker.offsets import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetLookup,
)
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import BROKER
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.runtime.turns import Pace, next_turn

_MIN_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LEADER_EPOCH_VERSION: Final = 4
DEBUGGING_REPLICA: Final = -2
NOT_AVAILABLE_VERSION: Final = 5
"""Before it clients that ask too early after an election hear LEADER_NOT_AVAILABLE (KIP-207)."""


async def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Find the offset of a time, or an end of each partition; who gives a replica id is answered as a consumer.

    Each topic is answered once, and one without partitions is left out.

    But a broker that calls itself a debugging replica is told where the log ends here, whoever leads.
    """
    topics: dict[str, list[ListOffsetsPartitionResponse]] = {}
    pace = Pace()
    lookup = ctx.broker.offsets.lookup(ctx.principal, read_committed=request.isolation_level == READ_COMMITTED)
    occurrences = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    for topic in request.topics:
        for partition in topic.partitions:
            if pace.is_enough():
                await next_turn()
            count = occurrences.pop((topic.name, partition.partition_index), 0)
            if count == 0:
                continue
            try:
                if count > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "a partition is named more than once")
                answer = await _look_up(ctx, request, lookup, topic.name, partition)
            except ApiError as error:
                code = error.code
                if code is ErrorCode.OFFSET_NOT_AVAILABLE and ctx.api_version < NOT_AVAILABLE_VERSION:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
                answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)
            topics.setdefault(topic.name, []).append(answer)
    return ListOffsetsResponse(
        topics=tuple(ListOffsetsTopicResponse(name=name, partitions=tuple(each)) for name, each in topics.items())
    )


async def _look_up(
    ctx: RequestContext, request: ListOffsetsRequest, lookup: OffsetLookup, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and ctx.api_version < _MIN_VERSION_OF.get(wanted.timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {request.isolation_level}")
    if request.replica_id == DEBUGGING_REPLICA and wanted.timestamp == LATEST and ctx.principal.type == BROKER:
        epoch, offset = ctx.broker.offsets.log_end(topic, wanted.partition_index)
        return ListOffsetsPartitionResponse(wanted.partition_index, timestamp=-1, offset=offset, leader_epoch=epoch)
    timestamp, offset, epoch = await lookup.find(
        topic, wanted.partition_index, wanted.current_leader_epoch, wanted.timestamp
    )
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if ctx.api_version >= LEADER_EPOCH_VERSION else -1,
    )


API = Api(ApiKey.LIST_OFFSETS, 1, 11, handle, is_async=True, starts_eagerly=True)
