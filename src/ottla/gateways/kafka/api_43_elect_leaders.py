"""ElectLeaders (key 43), versions 0 to 2 (KIP-183).

1 unclean elections and an error of the whole answer (KIP-460); 2 flexible. In version 0 every election is a preferred
one.
"""

from collections.abc import Iterable
from itertools import groupby

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.leader_election import ElectionType
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders, of all partitions when the request names none; those of all that need nothing are left out."""
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        ]
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        refusal = ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        return _response(refusal.code, ((each, refusal) for each in wanted or ()))
    try:
        outcomes = await ctx.broker.topics.elect_leaders(ctx.principal, election, wanted)
    except ApiError as error:
        return _response(error.code, ((each, error) for each in wanted or ()), error.message)
    return _response(ErrorCode.NONE, outcomes)


def _response(
    code: ErrorCode, outcomes: Iterable[tuple[TopicPartition, ApiError | None]], message: str | None = None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        error_message=message,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic,
                partition_result=tuple(
                    PartitionResult(partition_id=each.partition, error_message=None)
                    if error is None
                    else PartitionResult(
                        partition_id=each.partition, error_code=error.code, error_message=error.message
                    )
                    for each, error in group
                ),
            )
            for topic, group in groupby(outcomes, key=lambda item: item[0].topic)
        ),
    )


API = Api(ApiKey.ELECT_LEADERS, 0, 2, handle, is_async=True, after_responses=True, is_decided_by_controller=True)
