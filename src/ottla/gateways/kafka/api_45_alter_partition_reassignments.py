"""AlterPartitionReassignments (key 45), versions 0 to 1 (KIP-455).

1 a request may insist on the number of replicas (KIP-860). One broker holds every replica: a request that names it for
a partition is done before it is asked, any other is refused, and nothing is ever under way that could be cancelled.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer for each partition whether its replicas are where they are to be."""
    may_change_factor = request.allow_replication_factor_change
    try:
        ctx.broker.topics.require_reassigner(ctx.principal)
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _result(ctx, topic.name, each, may_change_factor=may_change_factor) for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _result(
    ctx: RequestContext, topic: str, wanted: ReassignablePartition, *, may_change_factor: bool
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        ctx.broker.topics.reassign(topic, wanted.partition_index, wanted.replicas, may_change_factor=may_change_factor)
    except ApiError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)


API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, handle, is_task=True, is_decided_by_controller=True)
