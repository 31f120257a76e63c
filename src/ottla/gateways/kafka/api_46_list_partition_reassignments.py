"""ListPartitionReassignments (key 46), version 0 (KIP-455)."""

from itertools import groupby

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Tell which partitions are on their way to other brokers, of those that are named, or of all."""
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    try:
        found = ctx.broker.topics.reassignments(ctx.principal, wanted)
    except ApiError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=topic,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=each.partition.partition,
                        replicas=each.replicas,
                        adding_replicas=each.adding,
                        removing_replicas=each.removing,
                    )
                    for each in partitions
                ),
            )
            for topic, partitions in groupby(found, key=lambda each: each.partition.topic)
        ),
    )


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, handle)
