"""ReadShareGroupStateSummary: the start offsets of share partitions (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/read_share_group_state_summary.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PartitionData(Struct, frozen=True):
    """Stands in `ReadStateSummaryData.partitions`."""

    partition: int = 0  # int32
    leader_epoch: int = 0  # int32


class ReadStateSummaryData(Struct, frozen=True):
    """Stands in `ReadShareGroupStateSummaryRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class ReadShareGroupStateSummaryRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 87
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    group_id: str = ""
    topics: tuple[ReadStateSummaryData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `ReadStateSummaryResult.partitions`."""

    partition: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    state_epoch: int = 0  # int32
    leader_epoch: int = 0  # int32
    start_offset: int = 0  # int64
    delivery_complete_count: int = -1  # int32, 1+


class ReadStateSummaryResult(Struct, frozen=True):
    """Stands in `ReadShareGroupStateSummaryResponse.results`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class ReadShareGroupStateSummaryResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 87
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    results: tuple[ReadStateSummaryResult, ...] = ()
