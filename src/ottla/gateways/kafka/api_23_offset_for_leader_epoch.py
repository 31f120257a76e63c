"""OffsetForLeaderEpoch (key 23), versions 2 to 4 (KIP-101, KIP-320).

2 the leader epoch the client believes in; 3 the replica id, -1 for a consumer; 4 flexible. Whoever names a replica id
is answered as a consumer is: offsets are all there is to learn, and they are no secret.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Tell where each leader epoch ends, so that a reader sees whether its log and ours part ways."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_end_offset(ctx, topic.topic, partition) for partition in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _end_offset(ctx: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        epoch, end_offset = ctx.broker.offsets.epoch_end_offset(
            ctx.principal, topic, wanted.partition, wanted.current_leader_epoch, wanted.leader_epoch
        )
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, handle)
