"""DescribeDeliveries: what a share group has in flight in partitions that the broker leads; an API of Ottla alone.

Written by tools/generate_protocol.py from schemas/messages/describe_deliveries.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class TopicRequest(Struct, frozen=True):
    """Stands in `DescribeDeliveriesRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partition_indexes: tuple[int, ...] = ()  # int32


class DescribeDeliveriesRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31000
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[TopicRequest, ...] = ()


class PartitionResponse(Struct, frozen=True):
    """Stands in `TopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    is_loaded: bool = False
    start_offset: int = -1  # int64
    end_offset: int = -1  # int64
    high_watermark: int = -1  # int64
    unfinished: int = 0  # int64
    in_flight: int = 0  # int64
    waiting: int = 0  # int64
    returned: int = 0  # int64
    redelivered: int = 0  # int64
    deliveries_most: int = 0  # int32
    accepted: int = 0  # int64
    archived: int = 0  # int64
    oldest_offset: int = -1  # int64
    oldest_deliveries: int = 0  # int32
    oldest_holder: str | None = None


class TopicResponse(Struct, frozen=True):
    """Stands in `DescribeDeliveriesResponse.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeDeliveriesResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31000
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    consumers: int = 0  # int32
    topics: tuple[TopicResponse, ...] = ()
