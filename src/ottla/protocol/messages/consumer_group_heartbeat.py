"""ConsumerGroupHeartbeat: heartbeat of a member of a consumer group (KIP-848).

Written by tools/generate_protocol.py from schemas/messages/consumer_group_heartbeat.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class TopicPartitions(Struct, frozen=True):
    """Stands in `ConsumerGroupHeartbeatRequest.topic_partitions` and 1 more."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class ConsumerGroupHeartbeatRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 68
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # int32
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None  # 1+
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class Assignment(Struct, frozen=True):
    """Stands in `ConsumerGroupHeartbeatResponse.assignment`."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 68
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0  # int32
    heartbeat_interval_ms: int = 0  # int32
    assignment: Assignment | None = None
