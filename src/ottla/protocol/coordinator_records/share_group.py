"""Share groups (KIP-932), in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/share_group.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    metadata_hash: int = 0  # int64


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    assignment_epoch: int = 0  # int32
    assignment_timestamp: int = 0  # int64


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """Stands in `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Stands in `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    member_epoch: int = 0  # int32
    previous_member_epoch: int = 0  # int32
    state: int = 0  # int8
    assigned_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicPartitionsInfo:
    """Stands in `ShareGroupStatePartitionMetadataValue.initializing_topics` and 1 more."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Stands in `ShareGroupStatePartitionMetadataValue.deleting_topics`."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()
