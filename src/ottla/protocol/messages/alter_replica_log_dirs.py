"""AlterReplicaLogDirs: move replicas between log directories.

Written by tools/generate_protocol.py from schemas/messages/alter_replica_log_dirs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class AlterReplicaLogDirTopic(Struct, frozen=True):
    """Stands in `AlterReplicaLogDir.topics`."""

    name: str = ""
    partitions: tuple[int, ...] = ()  # int32


class AlterReplicaLogDir(Struct, frozen=True):
    """Stands in `AlterReplicaLogDirsRequest.dirs`."""

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


class AlterReplicaLogDirsRequest(ApiMessage, frozen=True):
    """The request, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    dirs: tuple[AlterReplicaLogDir, ...] = ()


class AlterReplicaLogDirPartitionResult(Struct, frozen=True):
    """Stands in `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class AlterReplicaLogDirTopicResult(Struct, frozen=True):
    """Stands in `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


class AlterReplicaLogDirsResponse(ApiMessage, frozen=True):
    """The response, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
