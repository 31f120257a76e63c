"""ReadShareGroupState: the leader of a partition reads the delivery state of a share group (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/read_share_group_state.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PartitionData(Struct, frozen=True):
    """Stands in `ReadStateData.partitions`."""

    partition: int = 0  # int32
    leader_epoch: int = 0  # int32


class ReadStateData(Struct, frozen=True):
    """Stands in `ReadShareGroupStateRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class ReadShareGroupStateRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 84
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[ReadStateData, ...] = ()


class StateBatch(Struct, frozen=True):
    """Stands in `PartitionResult.state_batches`."""

    first_offset: int = 0  # int64
    last_offset: int = 0  # int64
    delivery_state: int = 0  # int8
    delivery_count: int = 0  # int16
    not_before: int = 0  # int64


class PartitionResult(Struct, frozen=True):
    """Stands in `ReadStateResult.partitions`."""

    partition: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    state_epoch: int = 0  # int32
    start_offset: int = 0  # int64
    state_batches: tuple[StateBatch, ...] = ()


class ReadStateResult(Struct, frozen=True):
    """Stands in `ReadShareGroupStateResponse.results`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class ReadShareGroupStateResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 84
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    results: tuple[ReadStateResult, ...] = ()
