"""ListPartitionReassignments (key 46), version 0 (KIP-455).

Nothing is ever being reassigned: every replica is on the one broker. Kafka's tools ask before they describe topics.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Tell which partitions are on their way to other brokers: none, whichever are asked for."""
    del request
    try:
        ctx.broker.topics.reassignments(ctx.principal)
    except ApiError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    return ListPartitionReassignmentsResponse(error_message=None)


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, handle)
