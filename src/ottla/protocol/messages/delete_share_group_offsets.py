"""DeleteShareGroupOffsets: delete the start offsets of share groups.

Written by tools/generate_protocol.py from schemas/messages/delete_share_group_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class DeleteShareGroupOffsetsRequestTopic(Struct, frozen=True):
    """Stands in `DeleteShareGroupOffsetsRequest.topics`."""

    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 92
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


class DeleteShareGroupOffsetsResponseTopic(Struct, frozen=True):
    """Stands in `DeleteShareGroupOffsetsResponse.responses`."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    error_code: int = 0  # int16
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 92
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
