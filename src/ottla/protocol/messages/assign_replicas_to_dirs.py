"""AssignReplicasToDirs: a broker says in which of its log directories its replicas lie.

Written by tools/generate_protocol.py from schemas/messages/assign_replicas_to_dirs.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PartitionData(Struct, frozen=True):
    """Stands in `TopicData.partitions`."""

    partition_index: int = 0  # int32


class TopicData(Struct, frozen=True):
    """Stands in `DirectoryData.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class DirectoryData(Struct, frozen=True):
    """Stands in `AssignReplicasToDirsRequest.directories`."""

    id: UUID = ZERO_UUID
    topics: tuple[TopicData, ...] = ()


class AssignReplicasToDirsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 73
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0  # int32
    broker_epoch: int = -1  # int64
    directories: tuple[DirectoryData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `TopicResult.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class TopicResult(Struct, frozen=True):
    """Stands in `DirectoryResult.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class DirectoryResult(Struct, frozen=True):
    """Stands in `AssignReplicasToDirsResponse.directories`."""

    id: UUID = ZERO_UUID
    topics: tuple[TopicResult, ...] = ()


class AssignReplicasToDirsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 73
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    directories: tuple[DirectoryResult, ...] = ()
