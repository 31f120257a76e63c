"""OffsetDelete: delete committed offsets of a group.

Written by tools/generate_protocol.py from schemas/messages/offset_delete.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class OffsetDeleteRequestPartition(Struct, frozen=True):
    """Stands in `OffsetDeleteRequestTopic.partitions`."""

    partition_index: int = 0  # int32


class OffsetDeleteRequestTopic(Struct, frozen=True):
    """Stands in `OffsetDeleteRequest.topics`."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(ApiMessage, frozen=True):
    """The request, version 0, never flexible."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(Struct, frozen=True):
    """Stands in `OffsetDeleteResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class OffsetDeleteResponseTopic(Struct, frozen=True):
    """Stands in `OffsetDeleteResponse.topics`."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(ApiMessage, frozen=True):
    """The response, version 0, never flexible."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0  # int16
    throttle_time_ms: int = 0  # int32
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
