"""DescribeProducers: describe the producers active on partitions.

Written by tools/generate_protocol.py from schemas/messages/describe_producers.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class TopicRequest(Struct, frozen=True):
    """Stands in `DescribeProducersRequest.topics`."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()  # int32


class DescribeProducersRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 61
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topics: tuple[TopicRequest, ...] = ()


class ProducerState(Struct, frozen=True):
    """Stands in `PartitionResponse.active_producers`."""

    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int32
    last_sequence: int = -1  # int32
    last_timestamp: int = -1  # int64
    coordinator_epoch: int = 0  # int32
    current_txn_start_offset: int = -1  # int64


class PartitionResponse(Struct, frozen=True):
    """Stands in `TopicResponse.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Struct, frozen=True):
    """Stands in `DescribeProducersResponse.topics`."""

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 61
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    topics: tuple[TopicResponse, ...] = ()
