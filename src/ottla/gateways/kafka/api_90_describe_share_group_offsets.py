"""DescribeShareGroupOffsets (key 90), versions 0 and 1 (KIP-932).

1 the lag (KIP-1226).
"""

from uuid import UUID

from ottla.broker.access import Operation, ResourceType
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.share.exchange import TopicPartitions
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey

NO_LAG = -1


async def handle(ctx: RequestContext, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    """The start offsets of groups, those of all their topics or of some."""
    return DescribeShareGroupOffsetsResponse(groups=tuple([await _group(ctx, group) for group in request.groups]))


async def _group(
    ctx: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    image = ctx.broker.image
    known: dict[UUID, tuple[TopicImage, tuple[int, ...]]] = {}
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    for each in asked.topics or ():
        topic = image.topic(each.topic_name)
        if topic is None:
            unknown.append(_failed(each.topic_name, each.partitions, ErrorCode.NONE))
        elif not _may(ctx, each.topic_name):
            unknown.append(_failed(each.topic_name, each.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            known[topic.topic_id] = topic, each.partitions
    topics: TopicPartitions | None = None
    if asked.topics is not None:
        topics = {topic_id: partitions for topic_id, (_, partitions) in known.items()}
    answer, states = await ctx.broker.share_groups.offsets(ctx.principal, asked.group_id, topics)
    if answer.error is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, error_code=answer.error, error_message=answer.message
        )
    if topics is None:
        for topic_id, partitions in answer.partitions.items():
            topic = image.topic_by_id(topic_id)
            if topic is not None and _may(ctx, topic.name):
                known[topic_id] = topic, partitions
    found = []
    for topic, partitions in known.values():
        rows = []
        for partition in partitions:
            state = states.get(ShareKey(asked.group_id, topic.topic_id, partition))
            start = UNKNOWN_OFFSET if state is None else state.state.start_offset
            rows.append(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=partition,
                    start_offset=start,
                    leader_epoch=0 if state is None else state.state.leader_epoch,
                    lag=_lag(ctx, topic, partition, start, 0 if state is None else state.state.complete_count),
                    error_code=ErrorCode.NONE if state is None else state.error,
                    error_message=None if state is None else state.message,
                )
            )
        found.append(DescribeShareGroupOffsetsResponseTopic(topic.name, topic.topic_id, tuple(rows)))
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=(*found, *unknown))


def _lag(ctx: RequestContext, topic: TopicImage, partition: int, start_offset: int, complete_count: int) -> int:
    """The records from the start offset on that are not done, where this broker knows the end of the partition."""
    if start_offset < 0:
        return NO_LAG
    try:
        return max(
            0, ctx.broker.replicas.get(topic.name, partition).high_watermark - start_offset - max(0, complete_count)
        )
    except ApiError:
        return NO_LAG


def _failed(name: str, partitions: tuple[int, ...], error: ErrorCode) -> DescribeShareGroupOffsetsResponseTopic:
    rows = tuple(
        DescribeShareGroupOffsetsResponsePartition(partition_index=each, start_offset=UNKNOWN_OFFSET, error_code=error)
        for each in partitions
    )
    return DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, rows)


def _may(ctx: RequestContext, name: str) -> bool:
    return ctx.broker.authorizer.allows(ctx.principal, Operation.DESCRIBE, ResourceType.TOPIC, name)


API = Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, handle, is_async=True)
