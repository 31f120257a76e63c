"""Metadata (key 3), versions 0 to 13.

0 an empty list of topics asks for all; 1 null asks for all, controller id, rack, internal flag; 2 cluster id; 4 the
client says whether a topic may be created; 5 offline replicas; 7 leader epoch; 8 authorized operations (KIP-430), those
of the cluster until 10; 9 flexible; 10 topic ids in the answer; 12 topic ids in the request (KIP-516); 13 an error code
for the whole answer (KIP-1102).
"""

from collections.abc import Coroutine, Mapping
from dataclasses import replace

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.topic_entries import TOPIC_ENTRIES
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import TopicImage
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

FIRST_VERSION_WITH_NULL = 1
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_IDS = 12

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


def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse | Coroutine[None, None, MetadataResponse]:
    """Tell who is there and who leads what; create the topics that are missing if both sides allow it."""
    topics = request.topics
    if not topics:
        asks_for_all = topics is None or ctx.api_version < FIRST_VERSION_WITH_NULL
        return _response(ctx, request, _all_topics(ctx) if asks_for_all else [])
    if ctx.api_version < FIRST_VERSION_WITH_IDS and any(each.name is None for each in topics):
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "") for each in topics
            )
        )
    if request.allow_auto_topic_creation and ctx.broker.topics.auto_create_enabled:
        missing = [name for name in _names(topics) if _may_be_created(ctx, name)]
        if missing:
            return _create_and_answer(ctx, request, topics, missing)
    return _response(ctx, request, _wanted_topics(ctx, topics, {}))


async def _create_and_answer(
    ctx: RequestContext, request: MetadataRequest, topics: tuple[MetadataRequestTopic, ...], missing: list[str]
) -> MetadataResponse:
    created: Created
    try:
        created = await ctx.broker.topics.auto_create(missing)
    except ApiError as error:
        created = dict.fromkeys(missing, error)
    return _response(ctx, request, _wanted_topics(ctx, topics, created))


def _may_be_created(ctx: RequestContext, name: str) -> bool:
    if ctx.broker.image.topic(name) is not None:
        return False
    try:
        validate_topic_name(name)
    except ApiError:
        return False
    return True


def _names(topics: tuple[MetadataRequestTopic, ...]) -> dict[str, None]:
    """The topics asked for by name, each once, in their order."""
    return {each.name: None for each in topics if each.name is not None and each.topic_id == ZERO_UUID}


def _all_topics(ctx: RequestContext) -> list[MetadataResponseTopic]:
    image = ctx.broker.image
    return [TOPIC_ENTRIES.entry(image, topic) for topic in image.topics()]


def _wanted_topics(
    ctx: RequestContext, topics: tuple[MetadataRequestTopic, ...], created: Created
) -> list[MetadataResponseTopic]:
    image = ctx.broker.image
    by_name = [_by_name(ctx, name, created.get(name)) for name in _names(topics)]
    by_id = []
    for topic_id in {each.topic_id: None for each in topics if each.topic_id != ZERO_UUID}:
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            by_id.append(TOPIC_ENTRIES.entry(image, topic))
        else:
            by_id.append(MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id))
    nameless = [
        MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
        for each in topics
        if each.name is None and each.topic_id == ZERO_UUID
    ]
    return [*by_name, *by_id, *nameless]


def _by_name(ctx: RequestContext, name: str, created: Outcome[TopicImage] | None) -> MetadataResponseTopic:
    image = ctx.broker.image
    topic = image.topic(name)
    if topic is not None:
        return TOPIC_ENTRIES.entry(image, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        validate_topic_name(name)
        if isinstance(created, ApiError):
            code = created.code
    except ApiError as error:
        code = error.code
        ctx.note_refusal(code, error.message)
    return MetadataResponseTopic(error_code=code, name=name)


def _response(ctx: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        topics = [
            replace(topic, topic_authorized_operations=TOPIC_OPERATIONS)
            if topic.error_code == ErrorCode.NONE
            else topic
            for topic in topics
        ]
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


API = Api(ApiKey.METADATA, 0, 13, handle, decode=decode)
