"""OffsetCommit (key 8), versions 2 to 10.

2 retention time; 5 without it (KIP-211); 6 leader epoch (KIP-320); 7 group instance id (KIP-345); 8 flexible; 9 groups
of the new protocol, GROUP_ID_NOT_FOUND (KIP-848); 10 topic ids (KIP-848).
"""

from typing import Final

from ottla.broker.committed_offsets import ErrorsByTopic
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.offset_commits import answered, offsets_of
from ottla.groups.requests import Committer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION: Final = 10
GROUP_ID_NOT_FOUND_VERSION: Final = 9
NO_RETENTION: Final = -1


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> None:
    """Store offsets; what names no partition of ours is refused on its own."""
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    committer = Committer(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=None if request.retention_time_ms == NO_RETENTION else request.retention_time_ms,
        knows_group_id_not_found=ctx.api_version >= GROUP_ID_NOT_FOUND_VERSION,
    )
    topics = [(topic.topic_id if by_id else topic.name, offsets_of(topic)) for topic in request.topics]

    def on_outcome(errors: ErrorsByTopic) -> None:
        answers = answered(request.topics, errors, OffsetCommitResponsePartition)
        ctx.respond(
            OffsetCommitResponse(
                topics=tuple(
                    OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
                    for topic, partitions in answers
                )
            )
        )

    ctx.broker.committed_offsets.commit(ctx.principal, committer, topics, on_outcome)


API = Api(ApiKey.OFFSET_COMMIT, 2, 10, handle)
