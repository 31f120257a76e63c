"""FindCoordinator (key 10), versions 0 to 6.

0 groups; 1 transactions, an error message; 3 flexible; 4 many keys (KIP-699); 5 as 4 (KIP-890); 6 share partitions
(KIP-932), for brokers.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.runtime.turns import in_turns

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

MANY_KEYS_VERSION: Final = 4
SHARE_VERSION: Final = 6

LeaderOf = Callable[[Principal, TopicImage, str], int]
"""The broker that leads the partition a key belongs to. Raises ApiError."""


class _Found(Struct, frozen=True):
    """Where a key's coordinator is, or why nobody can say."""

    node_id: int = -1
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find the brokers that lead the partitions the keys belong to.

    The topic that their state is kept in is made when it is first asked for.
    """
    many = ctx.api_version >= MANY_KEYS_VERSION
    keys = request.coordinator_keys if many else (request.key,)
    try:
        topic, leader_of = await _topic(ctx, request.key_type)
    except ApiError as error:
        found = dict.fromkeys(keys, _Found(error=error.code, message=error.message))
    else:
        found = {}
        async for some in in_turns(keys):
            found.update((key, _find(ctx, topic, leader_of, key)) for key in some)
    if many:
        coordinators: list[Coordinator] = []
        async for some in in_turns(keys):
            coordinators += (_coordinator(key, found[key]) for key in some)
        return FindCoordinatorResponse(coordinators=tuple(coordinators))
    one = found[request.key]
    return FindCoordinatorResponse(
        error_code=one.error, error_message=one.message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _topic(ctx: RequestContext, key_type: int) -> tuple[TopicImage, LeaderOf]:
    """The internal topic that coordinators of this kind keep their state in, and how to find a key in it."""
    coordinators = ctx.broker.coordinators
    if key_type == GROUP:
        return await coordinators.groups_topic(), coordinators.of_group
    if key_type == TRANSACTION:
        return await coordinators.transactions_topic(), coordinators.of_transactional_id
    if key_type == SHARE and ctx.api_version >= SHARE_VERSION:
        return await coordinators.share_states_topic(), coordinators.of_share_partition
    raise ApiError(ErrorCode.INVALID_REQUEST, f"this broker has no coordinators of type {key_type}")


def _find(ctx: RequestContext, topic: TopicImage, leader_of: LeaderOf, key: str) -> _Found:
    try:
        leader_id = leader_of(ctx.principal, topic, key)
    except ApiError as error:
        return _Found(error=error.code, message=error.message)
    node = ctx.broker.cluster.node(leader_id, ctx.connection)
    if node is None:
        return _Found(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"the partition of {key} has no leader")
    return _Found(node.node_id, node.host, node.port)


def _coordinator(key: str, found: _Found) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=found.message,
    )


API = Api(ApiKey.FIND_COORDINATOR, 0, 6, handle, is_async=True)
