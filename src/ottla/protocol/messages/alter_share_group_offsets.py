"""AlterShareGroupOffsets: change the start offsets of share groups.

Written by tools/generate_protocol.py from schemas/messages/alter_share_group_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class AlterShareGroupOffsetsRequestPartition(Struct, frozen=True):
    """Stands in `AlterShareGroupOffsetsRequestTopic.partitions`."""

    partition_index: int = 0  # int32
    start_offset: int = 0  # int64


class AlterShareGroupOffsetsRequestTopic(Struct, frozen=True):
    """Stands in `AlterShareGroupOffsetsRequest.topics`."""

    topic_name: str = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


class AlterShareGroupOffsetsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 91
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


class AlterShareGroupOffsetsResponsePartition(Struct, frozen=True):
    """Stands in `AlterShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(Struct, frozen=True):
    """Stands in `AlterShareGroupOffsetsResponse.responses`."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


class AlterShareGroupOffsetsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 91
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()
