"""DescribeTopicPartitions (key 75), version 0 (KIP-966).

Topics come sorted by name, a page of partitions at a time; the cursor names the first partition of the next page.
"""

from collections.abc import Iterator
from itertools import islice

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import TOPIC_OPERATIONS
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.topic_entries import offline_replicas
from ottla.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import validate_topic_name
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
    image = ctx.broker.image
    if request.cursor is not None and request.cursor.partition_index < 0:
        return DescribeTopicPartitionsResponse(
            topics=tuple(_failure(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics)
        )
    page_size = min(ctx.broker.settings.integer("max.request.partition.size.limit"), request.response_partition_limit)
    return _page(image, _names(image, request), request.cursor, max(page_size, 1))


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> Iterator[str]:
    """The topics from the cursor on, sorted; all there are when none is named."""
    names = {topic.name for topic in request.topics} or image.topics_by_name
    first = request.cursor.topic_name if request.cursor is not None else ""
    return (name for name in sorted(names) if name >= first)


def _page(
    image: MetadataImage, names: Iterator[str], cursor: Cursor | None, page_size: int
) -> DescribeTopicPartitionsResponse:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    room = page_size
    for name in names:
        if not room:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=Cursor(topic_name=name))
        topic = image.topic(name)
        if topic is None:
            topics.append(_failure(name, _unknown_code(name)))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        entry = _topic(image, topic, start, room)
        topics.append(entry)
        room -= len(entry.partitions)
        end = start + len(entry.partitions)
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _topic(image: MetadataImage, topic: TopicImage, start: int, count: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(image, each) for each in islice(topic.partitions, start, start + count)),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(image: MetadataImage, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    leader = partition.leader if partition.leader in image.brokers else NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=offline_replicas(partition, image.brokers),
    )


def _unknown_code(name: str) -> ErrorCode:
    try:
        validate_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failure(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, handle)
