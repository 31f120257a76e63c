"""Streams groups (KIP-1071), in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/streams_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import CoordinatorKey, CoordinatorValue


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class LastAssignmentConfig:
    """Stands in `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    metadata_hash: int = 0  # int64
    validated_topology_epoch: int = -1  # int32
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = None


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Stands in `StreamsGroupMemberMetadataValue.user_endpoint`."""

    host: str = ""
    port: int = 0  # uint16


@dataclass(frozen=True, slots=True)
class KeyValue:
    """Stands in `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1  # int32
    topology_epoch: int = 0  # int32
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    assignment_epoch: int = 0  # int32
    assignment_timestamp: int = 0  # int64


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberTaskIds:
    """Stands in `StreamsGroupTargetAssignmentMemberValue.active_tasks` and 2 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    active_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentTaskIds:
    """Stands in `StreamsGroupCurrentMemberAssignmentValue.active_tasks` and 5 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32
    assignment_epochs: tuple[int, ...] | None = None  # int32


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    member_epoch: int = 0  # int32
    previous_member_epoch: int = 0  # int32
    state: int = 0  # int8
    active_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyKey(CoordinatorKey):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Stands in `TopicInfo.topic_configs`."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Stands in `Subtopology.state_changelog_topics` and 1 more."""

    name: str = ""
    partitions: int = 0  # int32
    replication_factor: int = 0  # int16
    topic_configs: tuple[TopicConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Stands in `Subtopology.copartition_groups`."""

    source_topics: tuple[int, ...] = ()  # int16
    source_topic_regex: tuple[int, ...] = ()  # int16
    repartition_source_topics: tuple[int, ...] = ()  # int16


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Stands in `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyValue(CoordinatorValue):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    subtopologies: tuple[Subtopology, ...] = ()
