"""WriteShareGroupState: the leader of a partition writes the delivery state of a share group (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/write_share_group_state.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class StateBatch(Struct, frozen=True):
    """Stands in `PartitionData.state_batches`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    delivery_state: int = 0  # int8
    delivery_count: int = 0  # int16
    not_before: int = 0  # int64


class PartitionData(Struct, frozen=True):
    """Stands in `WriteStateData.partitions`."""

    partition: int = 0  # int32
    state_epoch: int = 0  # int32
    leader_epoch: int = 0  # int32
    start_offset: int = 0  # int64
    delivery_complete_count: int = -1  # int32, 1+
    state_batches: tuple[StateBatch, ...] = ()


class WriteStateData(Struct, frozen=True):
    """Stands in `WriteShareGroupStateRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class WriteShareGroupStateRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 85
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    group_id: str = ""
    topics: tuple[WriteStateData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `WriteStateResult.partitions`."""

    partition: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None


class WriteStateResult(Struct, frozen=True):
    """Stands in `WriteShareGroupStateResponse.results`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class WriteShareGroupStateResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 85
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    results: tuple[WriteStateResult, ...] = ()
