"""OffsetForLeaderEpoch: find where a leader epoch ended, to truncate safely.

Written by tools/generate_protocol.py from schemas/messages/offset_for_leader_epoch.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class OffsetForLeaderPartition(Struct, frozen=True):
    """Stands in `OffsetForLeaderTopic.partitions`."""

    partition: int = 0  # int32
    current_leader_epoch: int = -1  # int32
    leader_epoch: int = 0  # int32


class OffsetForLeaderTopic(Struct, frozen=True):
    """Stands in `OffsetForLeaderEpochRequest.topics`."""

    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(ApiMessage, frozen=True):
    """The request, versions 2-4, flexible from 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4

    replica_id: int = -2  # int32, 3+
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(Struct, frozen=True):
    """Stands in `OffsetForLeaderTopicResult.partitions`."""

    error_code: int = 0  # int16
    partition: int = 0  # int32
    leader_epoch: int = -1  # int32
    end_offset: int = -1  # int64


class OffsetForLeaderTopicResult(Struct, frozen=True):
    """Stands in `OffsetForLeaderEpochResponse.topics`."""

    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(ApiMessage, frozen=True):
    """The response, versions 2-4, flexible from 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0  # int32
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
