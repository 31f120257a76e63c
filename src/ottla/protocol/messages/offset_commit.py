"""OffsetCommit: commit the offsets of a consumer group.

Written by tools/generate_protocol.py from schemas/messages/offset_commit.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class OffsetCommitRequestPartition(Struct, frozen=True):
    """Stands in `OffsetCommitRequestTopic.partitions`."""

    partition_index: int = 0  # int32
    committed_offset: int = 0  # int64
    committed_leader_epoch: int = -1  # int32, 6+
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Struct, frozen=True):
    """Stands in `OffsetCommitRequest.topics`."""

    name: str = ""  # 2-9
    topic_id: UUID = ZERO_UUID  # 10+
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(ApiMessage, frozen=True):
    """The request, versions 2-10, flexible from 8."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 10

    group_id: str = ""
    generation_id_or_member_epoch: int = -1  # int32
    member_id: str = ""
    group_instance_id: str | None = None  # 7+
    retention_time_ms: int = -1  # int64, 2-4
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(Struct, frozen=True):
    """Stands in `OffsetCommitResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class OffsetCommitResponseTopic(Struct, frozen=True):
    """Stands in `OffsetCommitResponse.topics`."""

    name: str = ""  # 2-9
    topic_id: UUID = ZERO_UUID  # 10+
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(ApiMessage, frozen=True):
    """The response, versions 2-10, flexible from 8."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 10

    throttle_time_ms: int = 0  # int32, 3+
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
