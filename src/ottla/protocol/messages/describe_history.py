"""DescribeHistory: what became of one record in a share group, at the leader of its partition; an API of Ottla alone.

Written by tools/generate_protocol.py from schemas/messages/describe_history.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class DescribeHistoryRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31002
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topic_id: UUID = ZERO_UUID
    partition_index: int = 0  # int32
    offset: int = 0  # int64


class EventResponse(Struct, frozen=True):
    """Stands in `DescribeHistoryResponse.events`."""

    time_ms: int = 0  # int64
    what: str = ""
    deliveries: int = 0  # int32
    member_id: str = ""


class DescribeHistoryResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31002
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    kept_ms: int = 0  # int64
    events: tuple[EventResponse, ...] = ()
