"""DescribeTopicPartitions: describe the partitions of topics, page by page.

Written by tools/generate_protocol.py from schemas/messages/describe_topic_partitions.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class TopicRequest(Struct, frozen=True):
    """Stands in `DescribeTopicPartitionsRequest.topics`."""

    name: str = ""


class Cursor(Struct, frozen=True):
    """Stands in `DescribeTopicPartitionsRequest.cursor` and 1 more."""

    topic_name: str = ""
    partition_index: int = 0  # int32


class DescribeTopicPartitionsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000  # int32
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct, frozen=True):
    """Stands in `DescribeTopicPartitionsResponseTopic.partitions`."""

    error_code: int = 0  # int16
    partition_index: int = 0  # int32
    leader_id: int = 0  # int32
    leader_epoch: int = -1  # int32
    replica_nodes: tuple[int, ...] = ()  # int32
    isr_nodes: tuple[int, ...] = ()  # int32
    eligible_leader_replicas: tuple[int, ...] | None = None  # int32
    last_known_elr: tuple[int, ...] | None = None  # int32
    offline_replicas: tuple[int, ...] = ()  # int32


class DescribeTopicPartitionsResponseTopic(Struct, frozen=True):
    """Stands in `DescribeTopicPartitionsResponse.topics`."""

    error_code: int = 0  # int16
    name: str | None = ""
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648  # int32


class DescribeTopicPartitionsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None
