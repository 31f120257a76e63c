"""InitializeShareGroupState: the group coordinator has the delivery state of share partitions made (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/initialize_share_group_state.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PartitionData(Struct, frozen=True):
    """Stands in `InitializeStateData.partitions`."""

    partition: int = 0  # int32
    state_epoch: int = 0  # int32
    start_offset: int = 0  # int64


class InitializeStateData(Struct, frozen=True):
    """Stands in `InitializeShareGroupStateRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class InitializeShareGroupStateRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 83
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[InitializeStateData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `InitializeStateResult.partitions`."""

    partition: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None


class InitializeStateResult(Struct, frozen=True):
    """Stands in `InitializeShareGroupStateResponse.results`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class InitializeShareGroupStateResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 83
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    results: tuple[InitializeStateResult, ...] = ()
