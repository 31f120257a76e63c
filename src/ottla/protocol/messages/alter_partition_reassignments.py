"""AlterPartitionReassignments: change or cancel the reassignment of partitions.

Written by tools/generate_protocol.py from schemas/messages/alter_partition_reassignments.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ReassignablePartition(Struct, frozen=True):
    """Stands in `ReassignableTopic.partitions`."""

    partition_index: int = 0  # int32
    replicas: tuple[int, ...] | None = None  # int32


class ReassignableTopic(Struct, frozen=True):
    """Stands in `AlterPartitionReassignmentsRequest.topics`."""

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    timeout_ms: int = 60000  # int32
    allow_replication_factor_change: bool = True  # 1+
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(Struct, frozen=True):
    """Stands in `ReassignableTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""


class ReassignableTopicResponse(Struct, frozen=True):
    """Stands in `AlterPartitionReassignmentsResponse.responses`."""

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    allow_replication_factor_change: bool = True  # 1+
    error_code: int = 0  # int16
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()
