"""ListOffsets: find offsets by timestamp, and the first and last of a partition.

Written by tools/generate_protocol.py from schemas/messages/list_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ListOffsetsPartition(Struct, frozen=True):
    """Stands in `ListOffsetsTopic.partitions`."""

    partition_index: int = 0  # int32
    current_leader_epoch: int = -1  # int32, 4+
    timestamp: int = 0  # int64


class ListOffsetsTopic(Struct, frozen=True):
    """Stands in `ListOffsetsRequest.topics`."""

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(ApiMessage, frozen=True):
    """The request, versions 1-11, flexible from 6."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 11

    replica_id: int = 0  # int32
    isolation_level: int = 0  # int8, 2+
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: int = 0  # int32, 10+


class ListOffsetsPartitionResponse(Struct, frozen=True):
    """Stands in `ListOffsetsTopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    timestamp: int = -1  # int64
    offset: int = -1  # int64
    leader_epoch: int = -1  # int32, 4+


class ListOffsetsTopicResponse(Struct, frozen=True):
    """Stands in `ListOffsetsResponse.topics`."""

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(ApiMessage, frozen=True):
    """The response, versions 1-11, flexible from 6."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 11

    throttle_time_ms: int = 0  # int32, 2+
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
