"""OffsetFetch (key 9), versions 1 to 10.

1 offsets kept by the coordinator; 2 all partitions, an error for the group; 5 leader epoch (KIP-320); 6 flexible;
7 stable offsets (KIP-447); 8 many groups (KIP-709); 9 members of the new protocol (KIP-848); 10 topic ids (KIP-848).
"""

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from ottla.broker.committed_offsets import NO_OFFSET, GroupOffsets, NameOrId, TopicOffsets
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
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
from ottla.runtime.gather import Gather

MANY_GROUPS_VERSION: Final = 8
TOPIC_ID_VERSION: Final = 10

ELSEWHERE_OR_LATER: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""What a group is told whose coordinator moves. librdkafka looks for the other one, but asks it only for partitions of
which the offset was unstable: of others it never reads anything any more (confluentinc/librdkafka#5586)."""


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
        _fetch_of_many(ctx, group, request.require_stable, gather.place(index))


def _fetch_one(ctx: RequestContext, request: OffsetFetchRequest) -> None:
    asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]

    def on_offsets(group: GroupOffsets) -> None:
        error, topics = group.error, group.topics
        if error is not ErrorCode.NONE:
            # Version 1 has no other place for it. Of later ones aiokafka looks only here: where nothing is said of a
            # partition it takes nothing for committed, and begins anew while a coordinator moves.
            topics = [_unknown(name, None, indexes, error) for name, indexes in asked or ()]
        told = tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=topic.error_of(index),
                    )
                    for index, committed in topic.partitions
                ),
            )
            for topic in topics
        )
        ctx.respond(OffsetFetchResponse(topics=told, error_code=error))

    ctx.broker.committed_offsets.fetch(
        ctx.principal, request.group_id, asked, on_offsets, require_stable=request.require_stable
    )


def _fetch_of_many(
    ctx: RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    put: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    asked: list[tuple[NameOrId, tuple[int, ...]]] | None = None
    if group.topics is not None:
        asked = [(topic.topic_id if by_id else topic.name, topic.partition_indexes) for topic in group.topics]

    def on_offsets(offsets: GroupOffsets) -> None:
        topics: tuple[OffsetFetchResponseTopics, ...] = ()
        if offsets.error in ELSEWHERE_OR_LATER:
            topics = tuple(
                _topic(
                    _unknown(each.name, each.topic_id, each.partition_indexes, ErrorCode.UNSTABLE_OFFSET_COMMIT),
                    by_id=by_id,
                )
                for each in group.topics or ()
            )
        elif offsets.error is ErrorCode.NONE:
            # Who wants ids is not told of topics that are gone: they have none.
            topics = tuple(
                _topic(topic, by_id=by_id) for topic in offsets.topics if not by_id or topic.topic_id is not None
            )
        put(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=offsets.error))

    ctx.broker.committed_offsets.fetch(
        ctx.principal,
        group.group_id,
        asked,
        on_offsets,
        group.member_id,
        group.member_epoch,
        require_stable=require_stable,
    )


def _unknown(name: str, topic_id: UUID | None, indexes: Iterable[int], error: ErrorCode) -> TopicOffsets:
    return TopicOffsets(name, topic_id, [(each, NO_OFFSET) for each in indexes], error)


def _topic(topic: TopicOffsets, *, by_id: bool) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name="" if by_id else topic.name,
        topic_id=topic.topic_id if by_id and topic.topic_id is not None else ZERO_UUID,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=topic.error_of(index),
            )
            for index, committed in topic.partitions
        ),
    )


API = Api(ApiKey.OFFSET_FETCH, 1, 10, handle)
