"""DeleteShareGroupOffsets: delete the start offsets of share groups.

Written by tools/generate_protocol.py from schemas/messages/delete_share_group_offsets.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class DeleteShareGroupOffsetsRequestTopic:
    """Stands in `DeleteShareGroupOffsetsRequest.topics`."""

    topic_name: str = ""


@dataclass(frozen=True, slots=True)
class DeleteShareGroupOffsetsRequest(ApiMessage):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 92
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteShareGroupOffsetsResponseTopic:
    """Stands in `DeleteShareGroupOffsetsResponse.responses`."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    error_code: int = 0  # int16
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteShareGroupOffsetsResponse(ApiMessage):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 92
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
