"""DeleteRecords: move the start of partitions forward.

Written by tools/generate_protocol.py from schemas/messages/delete_records.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DeleteRecordsPartition(Struct, frozen=True):
    """Stands in `DeleteRecordsTopic.partitions`."""

    partition_index: int = 0  # int32
    offset: int = 0  # int64


class DeleteRecordsTopic(Struct, frozen=True):
    """Stands in `DeleteRecordsRequest.topics`."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0  # int32


class DeleteRecordsPartitionResult(Struct, frozen=True):
    """Stands in `DeleteRecordsTopicResult.partitions`."""

    partition_index: int = 0  # int32
    low_watermark: int = 0  # int64
    error_code: int = 0  # int16


class DeleteRecordsTopicResult(Struct, frozen=True):
    """Stands in `DeleteRecordsResponse.topics`."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
