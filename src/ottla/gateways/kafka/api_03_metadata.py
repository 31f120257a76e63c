"""Metadata (key 3), versions 0 to 13.

0 an empty list of topics asks for all; 1 null asks for all, controller id, rack, internal flag; 2 cluster id; 4 the
client says whether a topic may be created; 5 offline replicas; 7 leader epoch; 8 authorized operations (KIP-430), those
of the cluster until 10; 9 flexible; 10 topic ids in the answer; 12 topic ids in the request (KIP-516); 13 an error code
for the whole answer (KIP-1102).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final
from uuid import UUID

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.topic_entries import TOPIC_ENTRIES
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import validate_topic_name
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
        return await _answer(ctx, request, [*ctx.broker.image.topics()], {})
    if ctx.api_version < FIRST_VERSION_WITH_IDS and (None in map(_name_of, topics) or any(map(_has_id, topics))):
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "") for each in topics
            )
        )
    asked = Asked()
    async for some in in_turns(topics):
        asked.add(some)
    missing: list[str] = []
    async for names in in_turns(list(asked.names)):
        missing += _missing(ctx, request, names)
    created = await _create(ctx, missing) if missing else {}
    return await _answer(ctx, request, asked.in_order(), created)


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

    def in_order(self) -> list[str | UUID | TopicImage | None]:
        """All of it; None for those with neither name nor id."""
        return [*self.names, *self.ids, *[None] * self.nameless]


async def _answer(
    ctx: RequestContext, request: MetadataRequest, wanted: Sequence[str | UUID | TopicImage | None], created: Created
) -> MetadataResponse:
    image = ctx.broker.image
    entries: list[MetadataResponseTopic] = []
    async for some in in_turns(wanted):
        entries += _entries(ctx, request, image, some, created)
    return _response(ctx, request, entries)


async def _create(ctx: RequestContext, missing: list[str]) -> Created:
    try:
        return await ctx.broker.topics.auto_create(missing)
    except ApiError as error:
        return dict.fromkeys(missing, error)


def _missing(ctx: RequestContext, request: MetadataRequest, names: Sequence[str]) -> list[str]:
    """Which of `names` are to be created."""
    if not request.allow_auto_topic_creation or not ctx.broker.topics.auto_create_enabled:
        return []
    return [name for name in names if _may_be_created(ctx, name)]


def _may_be_created(ctx: RequestContext, name: str) -> bool:
    if ctx.broker.image.topic(name) is not None:
        return False
    try:
        validate_topic_name(name)
    except ApiError:
        return False
    return True


def _entries(
    ctx: RequestContext,
    request: MetadataRequest,
    image: MetadataImage,
    wanted: Sequence[str | UUID | TopicImage | None],
    created: Created,
) -> list[MetadataResponseTopic]:
    """What is said of each of `wanted`: a name, an id, a topic, or neither."""
    entries = []
    for each in wanted:
        if isinstance(each, str):
            topic = image.topic(each)
        elif isinstance(each, UUID):
            topic = image.topic_by_id(each)
        else:
            topic = each
        if topic is None:
            entries.append(_unknown(ctx, each, created))
            continue
        entry = TOPIC_ENTRIES.entry(image, topic)
        if request.include_topic_authorized_operations:
            entry = replace(entry, topic_authorized_operations=TOPIC_OPERATIONS)
        entries.append(entry)
    return entries


def _unknown(ctx: RequestContext, wanted: str | UUID | TopicImage | None, created: Created) -> MetadataResponseTopic:
    if isinstance(wanted, UUID):
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted)
    if not isinstance(wanted, str):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        validate_topic_name(wanted)
        outcome = created.get(wanted)
        if isinstance(outcome, ApiError):
            code = outcome.code
    except ApiError as error:
        code = error.code
        ctx.note_refusal(code, error.message)
    return MetadataResponseTopic(error_code=code, name=wanted)


def _response(ctx: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    cluster = ctx.broker.cluster
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.nodes(ctx.connection)
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


API = Api(ApiKey.METADATA, 0, 13, handle, is_task=True, decode=decode)
