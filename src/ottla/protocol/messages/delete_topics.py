"""DeleteTopics: delete topics by name or id.

Written by tools/generate_protocol.py from schemas/messages/delete_topics.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class DeleteTopicState(Struct, frozen=True):
    """Stands in `DeleteTopicsRequest.topics`."""

    name: str | None = None
    topic_id: UUID = ZERO_UUID


class DeleteTopicsRequest(ApiMessage, frozen=True):
    """The request, versions 1-6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    topics: tuple[DeleteTopicState, ...] = ()  # 6+
    topic_names: tuple[str, ...] = ()  # 1-5
    timeout_ms: int = 0  # int32


class DeletableTopicResult(Struct, frozen=True):
    """Stands in `DeleteTopicsResponse.responses`."""

    name: str | None = ""
    topic_id: UUID = ZERO_UUID  # 6+
    error_code: int = 0  # int16
    error_message: str | None = None  # 5+


class DeleteTopicsResponse(ApiMessage, frozen=True):
    """The response, versions 1-6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    throttle_time_ms: int = 0  # int32
    responses: tuple[DeletableTopicResult, ...] = ()
