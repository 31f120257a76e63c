"""CreatePartitions: add partitions to topics.

Written by tools/generate_protocol.py from schemas/messages/create_partitions.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ApiMessage


@dataclass(frozen=True, slots=True)
class CreatePartitionsAssignment:
    """Stands in `CreatePartitionsTopic.assignments`."""

    broker_ids: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopic:
    """Stands in `CreatePartitionsRequest.topics`."""

    name: str = ""
    count: int = 0  # int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest(ApiMessage):
    """The request, versions 0-3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0  # int32
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopicResult:
    """Stands in `CreatePartitionsResponse.results`."""

    name: str = ""
    error_code: int = 0  # int16
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse(ApiMessage):
    """The response, versions 0-3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0  # int32
    results: tuple[CreatePartitionsTopicResult, ...] = ()
