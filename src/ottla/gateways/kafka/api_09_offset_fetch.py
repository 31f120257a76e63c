"""OffsetFetch (key 9), versions 1 to 10.

1 offsets kept by the coordinator; 2 all partitions, an error for the group; 5 leader epoch (KIP-320); 6 flexible;
7 stable offsets (KIP-447); 8 many groups (KIP-709); 9 members of the new protocol (KIP-848); 10 topic ids (KIP-848).
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gather import Gather
from ottla.groups.answers import FetchAnswer
from ottla.groups.records import CommittedOffset
from ottla.groups.requests import FetchOffsets
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_VERSION: Final = 2
MANY_GROUPS_VERSION: Final = 8
TOPIC_ID_VERSION: Final = 10

NO_OFFSET: Final = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_timestamp_ms=-1)
"""What a partition without a committed offset is shown as."""


def handle(ctx: RequestContext, request: OffsetFetchRequest) -> None:
    """Read the offsets of one group, or of many; what is asked twice is answered once."""
    if ctx.api_version < MANY_GROUPS_VERSION:
        _fetch_one(ctx, request)
        return
    groups_asked = tuple(dict.fromkeys(request.groups))
    gather: Gather[OffsetFetchResponseGroup] = Gather(
        len(groups_asked), lambda groups: ctx.respond(OffsetFetchResponse(groups=tuple(groups)))
    )
    for index, group in enumerate(groups_asked):
        _fetch_of_many(ctx, group, gather, index)


def _fetch_one(ctx: RequestContext, request: OffsetFetchRequest) -> None:
    partitions = None
    if request.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )

    def on_answer(answer: FetchAnswer) -> None:
        error = answer.error
        offsets: Mapping[TopicPartition, CommittedOffset | None] = answer.offsets
        if error is not ErrorCode.NONE and ctx.api_version < GROUP_ERROR_VERSION:
            # There is no other place for the error.
            offsets = dict.fromkeys(partitions or ())
        topics = tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=error,
                    )
                    for index, committed in of_topic
                ),
            )
            for name, of_topic in _by_topic(offsets).items()
        )
        ctx.respond(OffsetFetchResponse(topics=topics, error_code=error))

    ctx.groups.fetch_offsets(FetchOffsets(request.group_id, partitions), on_answer)


def _fetch_of_many(
    ctx: RequestContext, group: OffsetFetchRequestGroup, gather: Gather[OffsetFetchResponseGroup], place: int
) -> None:
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    image = ctx.broker.image
    partitions = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        wanted: list[TopicPartition] = []
        for topic in group.topics:
            found = image.topic_by_id(topic.topic_id) if by_id else None
            if by_id and found is None:
                unknown.append(
                    _topic("", topic.topic_id, [(index, NO_OFFSET) for index in topic.partition_indexes], _UNKNOWN_ID)
                )
                continue
            name = topic.name if found is None else found.name
            wanted.extend(TopicPartition(name, index) for index in topic.partition_indexes)
        partitions = tuple(wanted)
    put = gather.place(place)

    def on_answer(answer: FetchAnswer) -> None:
        topics = [] if answer.error is not ErrorCode.NONE else [*_topics(image, answer, by_id=by_id), *unknown]
        put(OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(topics), error_code=answer.error))

    ctx.groups.fetch_offsets(FetchOffsets(group.group_id, partitions), on_answer)


_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID


def _topics(image: MetadataImage, answer: FetchAnswer, *, by_id: bool) -> list[OffsetFetchResponseTopics]:
    """The offsets by topic; for clients that want ids, without topics that are gone."""
    topics = []
    for name, of_topic in _by_topic(answer.offsets).items():
        if not by_id:
            topics.append(_topic(name, ZERO_UUID, of_topic, ErrorCode.NONE))
            continue
        topic = image.topic(name)
        if topic is not None:
            topics.append(_topic("", topic.topic_id, of_topic, ErrorCode.NONE))
    return topics


def _topic(
    name: str, topic_id: UUID, of_topic: list[tuple[int, CommittedOffset]], error: ErrorCode
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=error,
            )
            for index, committed in of_topic
        ),
    )


def _by_topic(
    offsets: Mapping[TopicPartition, CommittedOffset | None],
) -> dict[str, list[tuple[int, CommittedOffset]]]:
    by_topic: dict[str, list[tuple[int, CommittedOffset]]] = {}
    for (topic, index), committed in offsets.items():
        by_topic.setdefault(topic, []).append((index, committed or NO_OFFSET))
    return by_topic


API = Api(ApiKey.OFFSET_FETCH, 1, 10, handle)
