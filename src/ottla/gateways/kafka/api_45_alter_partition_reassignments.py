"""AlterPartitionReassignments (key 45), versions 0 to 1 (KIP-455).

1 a request may insist on the number of replicas (KIP-860).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.reassignment import Reassignment
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin to move each partition to other brokers, or take its move back."""
    wanted = [
        Reassignment(topic.name, each.partition_index, each.replicas)
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        outcomes = await ctx.broker.topics.reassign(
            ctx.principal, wanted, may_change_factor=request.allow_replication_factor_change
        )
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    remaining = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_result(each.partition_index, next(remaining)) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _result(index: int, outcome: Outcome[None]) -> ReassignablePartitionResponse:
    if outcome is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(partition_index=index, error_code=outcome.code, error_message=outcome.message)


API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    0,
    1,
    handle,
    is_async=True,
    after_responses=True,
    is_decided_by_controller=True,
)
