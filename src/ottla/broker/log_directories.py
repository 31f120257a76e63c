"""What lies in the data directories, for those who watch disks (KIP-113, KIP-827)."""

import asyncio
from collections.abc import Collection, Sequence

from msgspec import Struct

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.model.topic_partition import TopicPartition
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.log_manager import LogManager

UNKNOWN_BYTES = -1


class LogDescription(Struct, frozen=True):
    """A log with its bytes."""

    topic_partition: TopicPartition
    size: int


class LogDirectoryDescription(Struct, frozen=True):
    """A directory, the logs in it sorted by name, and the size and the room of its file system, -1 when unknown."""

    path: str
    error: ErrorCode
    logs: Sequence[LogDescription] = ()
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


class LogDirectoryService:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_logs")

    def __init__(self, logs: LogManager, authorizer: Authorizer = ALLOW_ALL) -> None:
        self._logs = logs
        self._authorizer = authorizer

    async def describe(
        self, principal: Principal, wanted: Collection[TopicPartition] | None
    ) -> list[LogDirectoryDescription]:
        """Each directory with the logs of the partitions `wanted` that are there, or with None of all.

        KAFKA_STORAGE_ERROR, and nothing else, of one that is offline or cannot be asked. Raises ApiError
        CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        return await asyncio.gather(*(_describe(directory, wanted) for directory in self._logs.directories))


async def _describe(directory: DirectoryLogs, wanted: Collection[TopicPartition] | None) -> LogDirectoryDescription:
    offline = LogDirectoryDescription(directory.path, ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        total_bytes, usable_bytes = await directory.space()
    except OSError:
        return offline
    if directory.failure is not None:
        return offline
    logs = [
        LogDescription(log.topic_partition, log.size)
        for log in directory.logs()
        if wanted is None or log.topic_partition in wanted
    ]
    logs.sort(key=lambda log: log.topic_partition)
    return LogDirectoryDescription(directory.path, ErrorCode.NONE, logs, total_bytes, usable_bytes)
