"""DescribeShareGroupOffsets: read the start offsets of share groups.

Written by tools/generate_protocol.py from schemas/messages/describe_share_group_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class DescribeShareGroupOffsetsRequestTopic(Struct, frozen=True):
    """Stands in `DescribeShareGroupOffsetsRequestGroup.topics`."""

    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


class DescribeShareGroupOffsetsRequestGroup(Struct, frozen=True):
    """Stands in `DescribeShareGroupOffsetsRequest.groups`."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


class DescribeShareGroupOffsetsRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 90
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


class DescribeShareGroupOffsetsResponsePartition(Struct, frozen=True):
    """Stands in `DescribeShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    start_offset: int = 0  # int64
    leader_epoch: int = 0  # int32
    lag: int = -1  # int64, 1+
    error_code: int = 0  # int16
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct, frozen=True):
    """Stands in `DescribeShareGroupOffsetsResponseGroup.topics`."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


class DescribeShareGroupOffsetsResponseGroup(Struct, frozen=True):
    """Stands in `DescribeShareGroupOffsetsResponse.groups`."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: int = 0  # int16
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 90
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()
