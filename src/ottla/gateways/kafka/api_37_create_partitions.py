"""CreatePartitions (key 37), versions 0 to 3.

2 flexible; 3 may be throttled (KIP-599).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_growth import NewPartitions
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

FIRST_VERSION_WITH_REFUSALS: Final = 3
"""Before it who changes too much is done his will, and told to be quiet."""


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to topics; each is answered once they are durable and there."""
    outcomes = await ctx.broker.topics.create_partitions(
        ctx.principal,
        [_new_partitions(topic) for topic in request.topics],
        validate_only=request.validate_only,
        quota=ctx.mutation_quota(FIRST_VERSION_WITH_REFUSALS),
    )
    return CreatePartitionsResponse(results=tuple(_result(name, outcome) for name, outcome in outcomes.items()))


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    return NewPartitions(topic.name, topic.count, assignments)


def _result(name: str, outcome: Outcome[int]) -> CreatePartitionsTopicResult:
    if isinstance(outcome, ApiError):
        return CreatePartitionsTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)
    return CreatePartitionsTopicResult(name=name)


API = Api(ApiKey.CREATE_PARTITIONS, 0, 3, handle, is_async=True, is_decided_by_controller=True)
