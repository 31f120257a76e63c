"""AlterReplicaLogDirs: move replicas between log directories.

Written by tools/generate_protocol.py from schemas/messages/alter_replica_log_dirs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ApiMessage


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirTopic:
    """Stands in `AlterReplicaLogDir.topics`."""

    name: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDir:
    """Stands in `AlterReplicaLogDirsRequest.dirs`."""

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsRequest(ApiMessage):
    """The request, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    dirs: tuple[AlterReplicaLogDir, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirPartitionResult:
    """Stands in `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirTopicResult:
    """Stands in `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsResponse(ApiMessage):
    """The response, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()
