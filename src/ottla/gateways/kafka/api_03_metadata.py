"""Metadata (key 3), versions 0 to 13.

0 an empty list of topics asks for all; 1 null asks for all, controller id, rack, internal flag; 2 cluster id; 4 the
client says whether a topic may be created; 5 offline replicas; 7 leader epoch; 8 authorized operations (KIP-430), those
of the cluster until 10; 9 flexible; 10 topic ids in the answer; 12 topic ids in the request (KIP-516); 13 an error code
for the whole answer (KIP-1102).
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.topic_entries import TOPIC_ENTRIES
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import MessageError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.runtime.turns import in_turns

FIRST_VERSION_WITH_NULL = 1
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_IDS = 12

_name_of: Final = attrgetter("name")

Created = Mapping[str, Outcome[TopicImage]]
"""What came of the topics that were to be created because they were asked for."""


def decode(version: int, frame: memoryview, offset: int) -> MetadataRequest:
    """A request, also the one in which librdkafka asks for all topics.

    From version 9 on a null list is one zero byte; librdkafka up to 2.16 sends the four bytes of the older versions
    (confluentinc/librdkafka#5049). Kafka reads the first one and drops what is left over at the end.
    """
    try:
        return MetadataRequest.decode(version, frame, offset)
    except MessageError:
        if version < FIRST_FLEXIBLE_VERSION or bytes(frame[offset : offset + 4]) != bytes(4):
            raise
        return MetadataRequest.decode(version, frame, offset + 3)


async def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Tell who is there and who leads what; create the topics that are missing if both sides allow it.

    An answer about many topics is made with everybody else in between.
    """
    topics = request.topics
    if topics is None or (not topics and ctx.api_version < FIRST_VERSION_WITH_NULL):
        return await _answer(ctx, request, None, {})
    if ctx.api_version < FIRST_VERSION_WITH_IDS and (None in map(_name_of, topics) or any(map(_has_id, topics))):
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "") for each in topics
            )
        )
    asked = Asked()
    async for some in in_turns(topics):
        asked.add(some)
    created: Created = {}
    if request.allow_auto_topic_creation:
        missing: list[str] = []
        async for names in in_turns(list(asked.names)):
            missing += ctx.broker.topics.missing(names)
        if missing:
            created = await ctx.broker.topics.auto_create(ctx.principal, missing, ctx.mutation_quota(strict_since=0))
    return await _answer(ctx, request, asked, created)


def _has_id(topic: MetadataRequestTopic) -> bool:
    return topic.topic_id is not ZERO_UUID and topic.topic_id != ZERO_UUID


class Asked:
    """What a request asks for, each once, in the order of the answer: names, ids, and those with neither."""

    __slots__ = ("ids", "nameless", "names")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.ids: dict[UUID, None] = {}
        self.nameless = 0

    def add(self, topics: Sequence[MetadataRequestTopic]) -> None:
        """Some more topics of the request."""
        for each in topics:
            if _has_id(each):
                self.ids[each.topic_id] = None
            elif each.name is not None:
                self.names[each.name] = None
            else:
                self.nameless += 1

    def names_and_ids(self) -> list[str | UUID]:
        """All that can be looked for."""
        return [*self.names, *self.ids]


async def _answer(
    ctx: RequestContext, request: MetadataRequest, wanted: Asked | None, created: Created
) -> MetadataResponse:
    """The answer about all topics, or about those that are asked for."""
    entries: list[MetadataResponseTopic] = []
    if wanted is None:
        async for found in in_turns(ctx.broker.topics.described(ctx.principal)):
            entries += _found(ctx, request, found)
    else:
        async for names in in_turns(wanted.names_and_ids()):
            entries += _asked_for(ctx, request, names, created)
        entries += [MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)] * wanted.nameless
    cluster = ctx.broker.cluster
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = operation_bits(cluster.operations(ctx.principal))
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.nodes_to_ask(ctx.connection)
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(entries),
        cluster_authorized_operations=operations,
    )


def _asked_for(
    ctx: RequestContext, request: MetadataRequest, wanted: Sequence[str | UUID], created: Created
) -> list[MetadataResponseTopic]:
    outcomes = ctx.broker.topics.find_many(ctx.principal, wanted)
    entries = iter(_found(ctx, request, [each for each in outcomes if isinstance(each, TopicImage)]))
    return [
        next(entries) if isinstance(outcome, TopicImage) else _not_found(ctx, each, outcome, created)
        for each, outcome in zip(wanted, outcomes, strict=True)
    ]


def _found(ctx: RequestContext, request: MetadataRequest, topics: Sequence[TopicImage]) -> list[MetadataResponseTopic]:
    service = ctx.broker.topics
    image, departed = service.image, ctx.broker.cluster.departed
    entries = [TOPIC_ENTRIES.entry(image, topic, departed) for topic in topics]
    if request.include_topic_authorized_operations:
        return [
            replace(entry, topic_authorized_operations=operation_bits(service.operations(ctx.principal, topic.name)))
            for entry, topic in zip(entries, topics, strict=True)
        ]
    return entries


def _not_found(ctx: RequestContext, wanted: str | UUID, error: ApiError, created: Created) -> MetadataResponseTopic:
    """Why there is no such topic, or, where it was to be created, why it was not."""
    if isinstance(wanted, UUID):
        return MetadataResponseTopic(error_code=error.code, name=None, topic_id=wanted)
    outcome = created.get(wanted)
    if isinstance(outcome, ApiError):
        return MetadataResponseTopic(error_code=outcome.code, name=wanted)
    ctx.note_refusal(error.code, error.message)
    return MetadataResponseTopic(error_code=error.code, name=wanted)


API = Api(ApiKey.METADATA, 0, 13, handle, is_async=True, decode=decode)
