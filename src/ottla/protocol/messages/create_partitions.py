"""CreatePartitions: add partitions to topics.

Written by tools/generate_protocol.py from schemas/messages/create_partitions.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class CreatePartitionsAssignment(Struct, frozen=True):
    """Stands in `CreatePartitionsTopic.assignments`."""

    broker_ids: tuple[int, ...] = ()  # int32


class CreatePartitionsTopic(Struct, frozen=True):
    """Stands in `CreatePartitionsRequest.topics`."""

    name: str = ""
    count: int = 0  # int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


class CreatePartitionsRequest(ApiMessage, frozen=True):
    """The request, versions 0-3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0  # int32
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct, frozen=True):
    """Stands in `CreatePartitionsResponse.results`."""

    name: str = ""
    error_code: int = 0  # int16
    error_message: str | None = None


class CreatePartitionsResponse(ApiMessage, frozen=True):
    """The response, versions 0-3, flexible from 2."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0  # int32
    results: tuple[CreatePartitionsTopicResult, ...] = ()
