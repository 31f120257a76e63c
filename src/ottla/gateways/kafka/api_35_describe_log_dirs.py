"""DescribeLogDirs (key 35), versions 1 to 5 (KIP-113).

2 flexible; 3 an error of the whole answer; 4 total and usable bytes of the file system (KIP-827); 5 cordoned
directories (KIP-1066), of which there are none.

From version 2 on, a tagged field of Ottla's own (tag 10000) says why directories are offline, for which Kafka has an
error code alone. Clients that do not know the tag skip it.
"""

from itertools import groupby
from typing import Final

from msgspec.structs import replace

from ottla.broker.log_directories import LogDirectoryDescription
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    DescribeLogDirsTrouble,
)

FIRST_VERSION_WITH_TAGS: Final = 2
FIRST_VERSION_WITH_ERROR: Final = 3
FIRST_VERSION_WITH_SPACE: Final = 4


async def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Tell how large the logs of partitions are, all of them when the request names no topics."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    try:
        directories = await ctx.broker.log_directories.describe(ctx.principal, wanted)
        troubles = ctx.broker.log_directories.troubles(ctx.principal)
    except ApiError as error:
        refused = error.code if ctx.api_version >= FIRST_VERSION_WITH_ERROR else ErrorCode.NONE
        return DescribeLogDirsResponse(error_code=refused)
    response = DescribeLogDirsResponse(results=tuple(_result(ctx, each) for each in directories))
    if troubles and ctx.api_version >= FIRST_VERSION_WITH_TAGS:
        response = replace(
            response, troubles=tuple(DescribeLogDirsTrouble(each.path, each.message) for each in troubles)
        )
    return response


def _result(ctx: RequestContext, directory: LogDirectoryDescription) -> DescribeLogDirsResult:
    topics = tuple(
        DescribeLogDirsTopic(
            name=name,
            partitions=tuple(
                DescribeLogDirsPartition(
                    partition_index=each.topic_partition.partition,
                    partition_size=each.size,
                    offset_lag=each.offset_lag,
                    is_future_key=each.is_future,
                )
                for each in logs
            ),
        )
        for name, logs in groupby(directory.logs, key=lambda each: each.topic_partition.topic)
    )
    result = DescribeLogDirsResult(error_code=directory.error, log_dir=directory.path, topics=topics)
    if ctx.api_version >= FIRST_VERSION_WITH_SPACE:
        result = replace(result, total_bytes=directory.total_bytes, usable_bytes=directory.usable_bytes)
    return result


API = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, handle, is_async=True)
