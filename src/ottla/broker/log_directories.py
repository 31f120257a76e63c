"""What lies in the data directory, for those who watch disks (KIP-113, KIP-827)."""

from collections.abc import Collection

from msgspec import Struct

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.model.topic_partition import TopicPartition
from ottla.storage.log_manager import LogManager

UNKNOWN_BYTES = -1


class LogDirectoryDescription(Struct, frozen=True):
    """The directory, the bytes of each log in it, and the size and the room of its file system, -1 when unknown."""

    path: str
    error: ErrorCode
    log_sizes: dict[TopicPartition, int]
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
    ) -> LogDirectoryDescription:
        """The directory with the logs of the partitions `wanted` that are there, or with None of all.

        KAFKA_STORAGE_ERROR, and nothing else, when the directory is offline or cannot be asked. Raises ApiError
        CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        try:
            total_bytes, usable_bytes = await self._logs.space()
        except OSError:
            return LogDirectoryDescription(self._logs.path, ErrorCode.KAFKA_STORAGE_ERROR, {})
        if self._logs.failure is not None:
            return LogDirectoryDescription(self._logs.path, ErrorCode.KAFKA_STORAGE_ERROR, {})
        if wanted is None:
            found = self._logs.logs()
        else:
            found = tuple(log for each in wanted if (log := self._logs.log(each)) is not None)
        sizes = {log.topic_partition: log.size for log in found}
        return LogDirectoryDescription(self._logs.path, ErrorCode.NONE, sizes, total_bytes, usable_bytes)
