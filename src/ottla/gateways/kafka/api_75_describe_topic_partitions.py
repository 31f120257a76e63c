"""DescribeTopicPartitions (key 75), version 0 (KIP-966).

Topics come sorted by name, a page of partitions at a time; the cursor names the first partition of the next page. That
nobody leads a partition is no error here: its leader is -1.
"""

from collections.abc import Iterator
from itertools import islice

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.topic_entries import TOPIC_ENTRIES, offline_replicas
from ottla.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Tell who holds the partitions of topics, as many as fit a page."""
    if request.cursor is not None and request.cursor.partition_index < 0:
        return DescribeTopicPartitionsResponse(
            topics=tuple(_failure(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics)
        )
    page_size = min(ctx.broker.config.max_request_partition_size_limit, request.response_partition_limit)
    return _page(ctx, _names(ctx, request), request.cursor, max(page_size, 1))


def _names(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> Iterator[str]:
    """The topics from the cursor on, sorted; all the client may see when none is named."""
    names = {topic.name for topic in request.topics} or {
        topic.name for topic in ctx.broker.topics.described(ctx.principal)
    }
    first = request.cursor.topic_name if request.cursor is not None else ""
    return (name for name in sorted(names) if name >= first)


def _page(
    ctx: RequestContext, names: Iterator[str], cursor: Cursor | None, page_size: int
) -> DescribeTopicPartitionsResponse:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    left = page_size
    for name in names:
        if not left:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=Cursor(topic_name=name))
        try:
            topic = ctx.broker.topics.find(ctx.principal, name)
        except ApiError as error:
            topics.append(_failure(name, error.code))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        entry = _topic(ctx, topic, start, left)
        topics.append(entry)
        left -= len(entry.partitions)
        end = start + len(entry.partitions)
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _topic(ctx: RequestContext, topic: TopicImage, start: int, count: int) -> DescribeTopicPartitionsResponseTopic:
    image = ctx.broker.image
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(image, topic, each) for each in islice(topic.partitions, start, start + count)),
        topic_authorized_operations=operation_bits(ctx.broker.topics.operations(ctx.principal, topic.name)),
    )


def _partition(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    live = TOPIC_ENTRIES.live_brokers(image)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader if partition.leader in live else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=() if partition.last_known_leader == NO_LEADER else (partition.last_known_leader,),
        offline_replicas=offline_replicas(image, topic, partition, live),
    )


def _failure(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, handle)
