"""OffsetCommit (key 8), versions 2 to 10.

2 retention time; 5 without it (KIP-211); 6 leader epoch (KIP-320); 7 group instance id (KIP-345); 8 flexible; 9 groups
of the new protocol, GROUP_ID_NOT_FOUND (KIP-848); 10 topic ids (KIP-848).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import CommitAnswer
from ottla.groups.requests import CommitOffsets, OffsetToCommit
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION: Final = 10
GROUP_ID_NOT_FOUND_VERSION: Final = 9
NO_RETENTION: Final = -1


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Store offsets; what names no partition of ours is refused on its own."""
    topics = [_find_topic(ctx, topic) for topic in request.topics]
    offsets = tuple(
        offset
        for asked, topic in zip(request.topics, topics, strict=True)
        if topic is not None
        for offset in _offsets(asked, topic)
    )
    if not offsets:
        return _response(ctx, request, topics, CommitAnswer())
    commit = CommitOffsets(
        group_id=request.group_id,
        offsets=offsets,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=None if request.retention_time_ms == NO_RETENTION else request.retention_time_ms,
        knows_group_id_not_found=ctx.api_version >= GROUP_ID_NOT_FOUND_VERSION,
    )
    ctx.groups.commit_offsets(commit, lambda answer: ctx.respond(_response(ctx, request, topics, answer)))
    return None


def _find_topic(ctx: RequestContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    image = ctx.broker.image
    return image.topic_by_id(topic.topic_id) if ctx.api_version >= TOPIC_ID_VERSION else image.topic(topic.name)


def _offsets(asked: OffsetCommitRequestTopic, topic: TopicImage) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=partition.partition_index,
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
        )
        for partition in asked.partitions
        if _has_partition(topic, partition.partition_index)
    ]


def _has_partition(topic: TopicImage, index: int) -> bool:
    return 0 <= index < len(topic.partitions)


def _response(
    ctx: RequestContext, request: OffsetCommitRequest, topics: list[TopicImage | None], answer: CommitAnswer
) -> OffsetCommitResponse:
    unknown = (
        ErrorCode.UNKNOWN_TOPIC_ID if ctx.api_version >= TOPIC_ID_VERSION else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )

    def error_of(topic: TopicImage | None, index: int) -> ErrorCode:
        if topic is None:
            return unknown
        if not _has_partition(topic, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = answer.refused.get(TopicPartition(topic.name, index), answer.error)
        return unknown if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error

    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_of(topic, partition.partition_index),
                    )
                    for partition in asked.partitions
                ),
            )
            for asked, topic in zip(request.topics, topics, strict=True)
        )
    )


API = Api(ApiKey.OFFSET_COMMIT, 2, 10, handle)
