"""ShareGroupHeartbeat: heartbeat of a member of a share group (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/share_group_heartbeat.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class ShareGroupHeartbeatRequest(ApiMessage, frozen=True):
    """The request, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 76
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # int32
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


class TopicPartitions(Struct, frozen=True):
    """Stands in `Assignment.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class Assignment(Struct, frozen=True):
    """Stands in `ShareGroupHeartbeatResponse.assignment`."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupHeartbeatResponse(ApiMessage, frozen=True):
    """The response, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 76
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0  # int32
    heartbeat_interval_ms: int = 0  # int32
    assignment: Assignment | None = None
