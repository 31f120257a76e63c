"""AlterPartition: the leader of a partition proposes who is in its ISR.

Written by tools/generate_protocol.py from schemas/messages/alter_partition.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class BrokerState(Struct, frozen=True):
    """Stands in `PartitionData.new_isr_with_epochs`."""

    broker_id: int = 0  # int32
    broker_epoch: int = -1  # int64


class PartitionData(Struct, frozen=True):
    """Stands in `TopicData.partitions`."""

    partition_index: int = 0  # int32
    leader_epoch: int = 0  # int32
    new_isr: tuple[int, ...] = ()  # int32, 2
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # 3+
    leader_recovery_state: int = 0  # int8
    partition_epoch: int = 0  # int32


class TopicData(Struct, frozen=True):
    """Stands in `AlterPartitionRequest.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class AlterPartitionRequest(ApiMessage, frozen=True):
    """The request, versions 2-3, flexible from 0."""

    API_KEY: ClassVar[int] = 56
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3

    broker_id: int = 0  # int32
    broker_epoch: int = -1  # int64
    topics: tuple[TopicData, ...] = ()


class PartitionResult(Struct, frozen=True):
    """Stands in `TopicResult.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16
    leader_id: int = 0  # int32
    leader_epoch: int = 0  # int32
    isr: tuple[int, ...] = ()  # int32
    leader_recovery_state: int = 0  # int8
    partition_epoch: int = 0  # int32


class TopicResult(Struct, frozen=True):
    """Stands in `AlterPartitionResponse.topics`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


class AlterPartitionResponse(ApiMessage, frozen=True):
    """The response, versions 2-3, flexible from 0."""

    API_KEY: ClassVar[int] = 56
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    topics: tuple[TopicResult, ...] = ()
