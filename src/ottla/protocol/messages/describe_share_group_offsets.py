"""DescribeShareGroupOffsets: read the start offsets of share groups.

Written by tools/generate_protocol.py from schemas/messages/describe_share_group_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsRequestTopic:
    """Stands in `DescribeShareGroupOffsetsRequestGroup.topics`."""

    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsRequestGroup:
    """Stands in `DescribeShareGroupOffsetsRequest.groups`."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsRequest(ApiMessage):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 90
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsResponsePartition:
    """Stands in `DescribeShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    start_offset: int = 0  # int64
    leader_epoch: int = 0  # int32
    lag: int = -1  # int64, 1+
    error_code: int = 0  # int16
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsResponseTopic:
    """Stands in `DescribeShareGroupOffsetsResponseGroup.topics`."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsResponseGroup:
    """Stands in `DescribeShareGroupOffsetsResponse.groups`."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: int = 0  # int16
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeShareGroupOffsetsResponse(ApiMessage):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 90
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()
