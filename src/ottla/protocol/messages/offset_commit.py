"""OffsetCommit: commit the offsets of a consumer group.

Written by tools/generate_protocol.py from schemas/messages/offset_commit.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class OffsetCommitRequestPartition:
    """Stands in `OffsetCommitRequestTopic.partitions`."""

    partition_index: int = 0  # int32
    committed_offset: int = 0  # int64
    committed_leader_epoch: int = -1  # int32, 6+
    committed_metadata: str | None = ""


@dataclass(frozen=True, slots=True)
class OffsetCommitRequestTopic:
    """Stands in `OffsetCommitRequest.topics`."""

    name: str = ""  # 2-9
    topic_id: UUID = ZERO_UUID  # 10+
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest(ApiMessage):
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


@dataclass(frozen=True, slots=True)
class OffsetCommitResponsePartition:
    """Stands in `OffsetCommitResponseTopic.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


@dataclass(frozen=True, slots=True)
class OffsetCommitResponseTopic:
    """Stands in `OffsetCommitResponse.topics`."""

    name: str = ""  # 2-9
    topic_id: UUID = ZERO_UUID  # 10+
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse(ApiMessage):
    """The response, versions 2-10, flexible from 8."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 10

    throttle_time_ms: int = 0  # int32, 3+
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
