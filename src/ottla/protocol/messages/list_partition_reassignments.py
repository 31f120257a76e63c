"""ListPartitionReassignments: list the reassignments in progress.

Written by tools/generate_protocol.py from schemas/messages/list_partition_reassignments.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ListPartitionReassignmentsTopics(Struct, frozen=True):
    """Stands in `ListPartitionReassignmentsRequest.topics`."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()  # int32


class ListPartitionReassignmentsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    timeout_ms: int = 60000  # int32
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Struct, frozen=True):
    """Stands in `OngoingTopicReassignment.partitions`."""

    partition_index: int = 0  # int32
    replicas: tuple[int, ...] = ()  # int32
    adding_replicas: tuple[int, ...] = ()  # int32
    removing_replicas: tuple[int, ...] = ()  # int32


class OngoingTopicReassignment(Struct, frozen=True):
    """Stands in `ListPartitionReassignmentsResponse.topics`."""

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
