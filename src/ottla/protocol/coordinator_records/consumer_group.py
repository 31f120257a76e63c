"""Consumer groups (KIP-848), in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/consumer_group.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue


class ConsumerGroupMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class ConsumerGroupMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    metadata_hash: int = 0  # int64


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class PartitionMetadata(Struct, frozen=True):
    """Stands in `TopicMetadata.partition_metadata`."""

    partition: int = 0  # int32
    racks: tuple[str, ...] = ()


class TopicMetadata(Struct, frozen=True):
    """Stands in `ConsumerGroupPartitionMetadataValue.topics`."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0  # int32
    partition_metadata: tuple[PartitionMetadata, ...] = ()


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topics: tuple[TopicMetadata, ...] = ()


class ConsumerGroupMemberMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class ClassicProtocol(Struct, frozen=True):
    """Stands in `ClassicMemberMetadata.supported_protocols`."""

    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(Struct, frozen=True):
    """Stands in `ConsumerGroupMemberMetadataValue.classic_member_metadata`."""

    session_timeout_ms: int = 0  # int32
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1  # int32
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = None


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    assignment_epoch: int = 0  # int32
    assignment_timestamp: int = 0  # int64


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class TopicPartition(Struct, frozen=True):
    """Stands in `ConsumerGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_partitions: tuple[TopicPartition, ...] = ()


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class TopicPartitions(Struct, frozen=True):
    """Stands in `ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions` and 1 more."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32
    assignment_epochs: tuple[int, ...] | None = None  # int32


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    member_epoch: int = 0  # int32
    previous_member_epoch: int = 0  # int32
    state: int = 0  # int8
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topics: tuple[str, ...] = ()
    version: int = 0  # int64
    timestamp: int = 0  # int64
