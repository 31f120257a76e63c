"""What lies in the data directories, for those who watch disks, and moving it between them (KIP-113, KIP-827)."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_partition import TopicPartition
from ottla.model.unknown_topic import no_such_partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.turns import in_turns
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.file_names import may_have_future
from ottla.storage.log_directory import failure_text
from ottla.storage.log_manager import LogManager
from ottla.storage.log_moves import LogMove

UNKNOWN_BYTES = -1


class LogDescription(Struct, frozen=True):
    """A log with its bytes, or one on its way into the directory, with the offsets it lacks."""

    topic_partition: TopicPartition
    size: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirectoryDescription(Struct, frozen=True):
    """A directory, the logs in it sorted by name, and the size and the room of its file system, -1 when unknown."""

    path: str
    error: ErrorCode
    logs: Sequence[LogDescription] = ()
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


class DirectoryTrouble(Struct, frozen=True):
    """Why a directory, or replicas whose directory this broker does not have, are offline."""

    path: str
    """Empty for a directory that is not one of `log.dirs`."""
    message: str


class LogDirectoryService:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_logs", "_replicas")

    def __init__(self, logs: LogManager, replicas: ReplicaManager, authorizer: Authorizer = ALLOW_ALL) -> None:
        self._logs = logs
        self._replicas = replicas
        self._authorizer = authorizer

    async def describe(
        self, principal: Principal, wanted: Collection[TopicPartition] | None
    ) -> list[LogDirectoryDescription]:
        """Each directory with the logs of the partitions `wanted` that are there, or with None of all.

        KAFKA_STORAGE_ERROR, and nothing else, of one that is offline or cannot be asked. Raises ApiError
        CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        moves = self._logs.moves.all()
        return await asyncio.gather(*(_describe(directory, moves, wanted) for directory in self._logs.directories))

    @property
    def are_writable(self) -> bool:
        """Whether all can be written, as far as the broker has found."""
        return all(each.failure is None for each in self._logs.directories)

    def troubles(self, principal: Principal) -> list[DirectoryTrouble]:
        """What is offline, and why; empty when all is served. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        directories = [
            DirectoryTrouble(each.path, failure_text(failure))
            for each in self._logs.directories
            if (failure := each.failure) is not None
        ]
        offline = Counter(self._replicas.offline.values())
        replicas = [DirectoryTrouble("", f"{count} replicas are offline: {why}") for why, count in offline.items()]
        return directories + replicas

    async def alter(self, principal: Principal, wanted: Sequence[tuple[TopicPartition, str]]) -> list[ApiError | None]:
        """Begin to move logs to the directories with these paths; None, or why nothing was begun, for each.

        What has begun goes on after a restart. A log that is there already stays, and a move elsewhere ends.
        CLUSTER_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION (the name is too long for a copy), LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR (the directory or the partition is offline, or no copy can be made),
        REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION (not here, or nowhere: it is made there if it comes).
        """
        try:
            require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)
        except ApiError as error:
            return [error] * len(wanted)
        outcomes: list[ApiError | None] = []
        async for some in in_turns(wanted):
            for name, path in some:
                try:
                    await self._alter(name, path)
                    outcomes.append(None)
                except ApiError as error:
                    outcomes.append(error)
        return outcomes

    async def _alter(self, name: TopicPartition, path: str) -> None:
        if not may_have_future(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is too long a name to be moved")
        target = self._logs.directory_at(path)
        if target is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"log.dirs of this broker does not name {path!r}")
        if target.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline: {target.failure}")
        if name in self._replicas.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is offline: {self._replicas.offline[name]}")
        move = self._logs.moves.find(name)
        if move is not None and move.target is target:
            await move.begun
            return
        await self._logs.moves.cancel([name])
        log, source = self._logs.log(name), self._logs.directory_of(name)
        if log is None or source is None:
            self._logs.prefer(name, target)
            if not self._replicas.is_known(name):
                raise no_such_partition(name.topic, name.partition)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"this broker has no replica of {name}")
        if source is not target and self._logs.moves.find(name) is None:
            error = await self._logs.moves.start(log, source, target).begun
            if error is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be moved to {path!r}: {error}") from error


async def _describe(
    directory: DirectoryLogs, moves: Sequence[LogMove], wanted: Collection[TopicPartition] | None
) -> LogDirectoryDescription:
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
    logs += [
        LogDescription(move.log.topic_partition, move.copied_bytes, move.lag, is_future=True)
        for move in moves
        if move.target is directory and (wanted is None or move.log.topic_partition in wanted)
    ]
    logs.sort(key=lambda log: log.topic_partition)
    return LogDirectoryDescription(directory.path, ErrorCode.NONE, logs, total_bytes, usable_bytes)
