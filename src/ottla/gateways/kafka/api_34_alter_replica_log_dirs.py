"""AlterReplicaLogDirs (key 34), versions 1 to 2 (KIP-113): have replicas lie in other data directories of their broker.

2 flexible. The answer comes when the moves have begun; DescribeLogDirs tells how far they are.
"""

from itertools import groupby

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Begin the moves; a partition that is named twice goes where it is named last."""
    paths = {
        TopicPartition(topic.name, index): each.path
        for each in request.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    wanted = sorted(paths.items())
    outcomes = await ctx.broker.log_directories.alter(ctx.principal, wanted)
    errors = [ErrorCode.NONE if outcome is None else outcome.code for outcome in outcomes]
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=name.partition, error_code=error)
                    for (name, _), error in each
                ),
            )
            for topic, each in groupby(zip(wanted, errors, strict=True), key=lambda item: item[0][0].topic)
        )
    )


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, handle, is_async=True, after_responses=True)
