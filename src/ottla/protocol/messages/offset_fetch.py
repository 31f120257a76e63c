"""OffsetFetch: read the committed offsets of consumer groups.

Written by tools/generate_protocol.py from schemas/messages/offset_fetch.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class OffsetFetchRequestTopic(Struct, frozen=True):
    """Stands in `OffsetFetchRequest.topics`."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()  # int32


class OffsetFetchRequestTopics(Struct, frozen=True):
    """Stands in `OffsetFetchRequestGroup.topics`."""

    name: str = ""  # 8-9
    topic_id: UUID = ZERO_UUID  # 10+
    partition_indexes: tuple[int, ...] = ()  # int32


class OffsetFetchRequestGroup(Struct, frozen=True):
    """Stands in `OffsetFetchRequest.groups`."""

    group_id: str = ""
    member_id: str | None = None  # 9+
    member_epoch: int = -1  # int32, 9+
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()


class OffsetFetchRequest(ApiMessage, frozen=True):
    """The request, versions 1-10, flexible from 6."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10

    group_id: str = ""  # 1-7
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()  # 1-7
    groups: tuple[OffsetFetchRequestGroup, ...] = ()  # 8+
    require_stable: bool = False  # 7+


class OffsetFetchResponsePartition(Struct, frozen=True):
    """Stands in `OffsetFetchResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    committed_offset: int = 0  # int64
    committed_leader_epoch: int = -1  # int32, 5+
    metadata: str | None = ""
    error_code: int = 0  # int16


class OffsetFetchResponseTopic(Struct, frozen=True):
    """Stands in `OffsetFetchResponse.topics`."""

    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(Struct, frozen=True):
    """Stands in `OffsetFetchResponseTopics.partitions`."""

    partition_index: int = 0  # int32
    committed_offset: int = 0  # int64
    committed_leader_epoch: int = -1  # int32
    metadata: str | None = ""
    error_code: int = 0  # int16


class OffsetFetchResponseTopics(Struct, frozen=True):
    """Stands in `OffsetFetchResponseGroup.topics`."""

    name: str = ""  # 8-9
    topic_id: UUID = ZERO_UUID  # 10+
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(Struct, frozen=True):
    """Stands in `OffsetFetchResponse.groups`."""

    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: int = 0  # int16


class OffsetFetchResponse(ApiMessage, frozen=True):
    """The response, versions 1-10, flexible from 6."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10

    throttle_time_ms: int = 0  # int32, 3+
    topics: tuple[OffsetFetchResponseTopic, ...] = ()  # 1-7
    error_code: int = 0  # int16, 2-7
    groups: tuple[OffsetFetchResponseGroup, ...] = ()  # 8+
