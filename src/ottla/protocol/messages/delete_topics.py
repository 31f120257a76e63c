"""DeleteTopics: delete topics by name or id.

Written by tools/generate_protocol.py from schemas/messages/delete_topics.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, ApiMessage


@dataclass(frozen=True, slots=True)
class DeleteTopicState:
    """Stands in `DeleteTopicsRequest.topics`."""

    name: str | None = None
    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest(ApiMessage):
    """The request, versions 1-6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    topics: tuple[DeleteTopicState, ...] = ()  # 6+
    topic_names: tuple[str, ...] = ()  # 1-5
    timeout_ms: int = 0  # int32


@dataclass(frozen=True, slots=True)
class DeletableTopicResult:
    """Stands in `DeleteTopicsResponse.responses`."""

    name: str | None = ""
    topic_id: UUID = ZERO_UUID  # 6+
    error_code: int = 0  # int16
    error_message: str | None = None  # 5+


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse(ApiMessage):
    """The response, versions 1-6, flexible from 4."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    throttle_time_ms: int = 0  # int32
    responses: tuple[DeletableTopicResult, ...] = ()
