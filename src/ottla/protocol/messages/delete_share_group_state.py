"""DeleteShareGroupState: the group coordinator deletes the delivery state of share partitions (KIP-932).

Written by tools/generate_protocol.py from schemas/messages/delete_share_group_state.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PartitionData(Struct, frozen=True):
    """Stands in `DeleteStateData.partitions`."""

    partition: int = 0  # int32


class DeleteStateData(Struct, frozen=True):
    """Stands in `DeleteShareGroupStateRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class DeleteShareGroupStateRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 86
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    topics: tuple[DeleteStateData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `DeleteStateResult.partitions`."""

    partition: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None


class DeleteStateResult(Struct, frozen=True):
    """Stands in `DeleteShareGroupStateResponse.results`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class DeleteShareGroupStateResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 86
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    results: tuple[DeleteStateResult, ...] = ()
