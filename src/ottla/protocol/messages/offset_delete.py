"""OffsetDelete: delete committed offsets of a group.

Written by tools/generate_protocol.py from schemas/messages/offset_delete.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ApiMessage


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestPartition:
    """Stands in `OffsetDeleteRequestTopic.partitions`."""

    partition_index: int = 0  # int32


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestTopic:
    """Stands in `OffsetDeleteRequest.topics`."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest(ApiMessage):
    """The request, version 0, never flexible."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponsePartition:
    """Stands in `OffsetDeleteResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponseTopic:
    """Stands in `OffsetDeleteResponse.topics`."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse(ApiMessage):
    """The response, version 0, never flexible."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0  # int16
    throttle_time_ms: int = 0  # int32
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
