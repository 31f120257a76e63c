"""DeleteTopics (key 20), versions 1 to 6.

3 TOPIC_DELETION_DISABLED where it was INVALID_REQUEST; 4 flexible; 5 error messages and throttling (KIP-599); 6 topics
by id (KIP-516).
"""

from collections import Counter
from uuid import UUID

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_VERSION_WITH_DISABLED = 3
FIRST_VERSION_WITH_MESSAGE = 5
FIRST_VERSION_WITH_IDS = 6


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics; their files go after `file.delete.delay.ms`."""
    results: list[DeletableTopicResult] = []
    named: list[str | UUID] = list(request.topic_names)
    for state in request.topics if ctx.api_version >= FIRST_VERSION_WITH_IDS else ():
        topic = _named_once(state)
        if isinstance(topic, ApiError):
            results.append(_failure(state.name, state.topic_id, topic, ctx.api_version))
        else:
            named.append(topic)
    occurrences = Counter(named)
    wanted: list[str | UUID] = []
    for name, count in occurrences.items():
        if count == 1:
            wanted.append(name)
        else:
            error = ApiError(ErrorCode.INVALID_REQUEST, "the request names the topic more than once")
            results.append(_result(name, error, ctx.api_version))
    outcomes = await ctx.broker.topics.delete(
        ctx.principal, wanted, quota=ctx.mutation_quota(FIRST_VERSION_WITH_MESSAGE)
    )
    results.extend(_result(each, outcome, ctx.api_version) for each, outcome in zip(wanted, outcomes, strict=True))
    return DeleteTopicsResponse(responses=tuple(results))


def _named_once(state: DeleteTopicState) -> str | UUID | ApiError:
    """The topic's name or id, of which a request gives exactly one."""
    if state.name is not None:
        if state.topic_id != ZERO_UUID:
            return ApiError(
                ErrorCode.INVALID_REQUEST, f"You may not specify both topic name and topic id: {state.name}"
            )
        return state.name
    if state.topic_id == ZERO_UUID:
        return ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified")
    return state.topic_id


def _result(wanted: str | UUID, outcome: Outcome[TopicImage], version: int) -> DeletableTopicResult:
    if not isinstance(outcome, ApiError):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)
    if isinstance(wanted, UUID):
        return _failure(None, wanted, outcome, version)
    return _failure(wanted, ZERO_UUID, outcome, version)


def _failure(name: str | None, topic_id: UUID, error: ApiError, version: int) -> DeletableTopicResult:
    code = error.code
    if code == ErrorCode.TOPIC_DELETION_DISABLED and version < FIRST_VERSION_WITH_DISABLED:
        code = ErrorCode.INVALID_REQUEST
    message = error.message if version >= FIRST_VERSION_WITH_MESSAGE else None
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


API = Api(ApiKey.DELETE_TOPICS, 1, 6, handle, is_async=True, after_responses=True, is_decided_by_controller=True)
