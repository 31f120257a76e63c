"""AssignReplicasToDirs (key 73), version 0 (KIP-858), from brokers that have several log directories."""

from ottla.broker.access import require_that_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)


async def handle(ctx: RequestContext, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    """Note where replicas lie, each by itself."""
    places = [
        ReplicaPlace(topic.topic_id, each.partition_index, directory.id)
        for directory in request.directories
        for topic in directory.topics
        for each in topic.partitions
    ]
    try:
        require_that_broker(ctx.principal, request.broker_id)
        outcomes = await ctx.broker.controller.place_replicas(request.broker_id, request.broker_epoch, places)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return AssignReplicasToDirsResponse(error_code=error.code)
    codes = iter([ErrorCode.NONE if outcome is None else outcome.code for outcome in outcomes])
    return AssignReplicasToDirsResponse(
        directories=tuple(
            DirectoryResult(
                directory.id,
                tuple(
                    TopicResult(
                        topic.topic_id,
                        tuple(PartitionResult(each.partition_index, next(codes)) for each in topic.partitions),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        )
    )


API = Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, handle, is_async=True, is_between_brokers=True)
