"""Share groups (KIP-932), in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/share_group.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue


class ShareGroupMemberMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class ShareGroupMemberMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


class ShareGroupMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class ShareGroupMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    metadata_hash: int = 0  # int64


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    assignment_epoch: int = 0  # int32
    assignment_timestamp: int = 0  # int64


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class TopicPartition(Struct, frozen=True):
    """Stands in `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    topic_partitions: tuple[TopicPartition, ...] = ()


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class TopicPartitions(Struct, frozen=True):
    """Stands in `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: UUID = ZERO_UUID
    partitions: tuple[int, ...] = ()  # int32


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    member_epoch: int = 0  # int32
    previous_member_epoch: int = 0  # int32
    state: int = 0  # int8
    assigned_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class TopicPartitionsInfo(Struct, frozen=True):
    """Stands in `ShareGroupStatePartitionMetadataValue.initializing_topics` and 1 more."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


class TopicInfo(Struct, frozen=True):
    """Stands in `ShareGroupStatePartitionMetadataValue.deleting_topics`."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""


class ShareGroupStatePartitionMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()
