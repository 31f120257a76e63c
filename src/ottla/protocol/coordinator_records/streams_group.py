"""Streams groups (KIP-1071), in __consumer_offsets.

Written by tools/generate_protocol.py from schemas/coordinator_records/streams_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import CoordinatorKey, CoordinatorValue


class StreamsGroupMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class LastAssignmentConfig(Struct, frozen=True):
    """Stands in `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = ""
    value: str = ""


class StreamsGroupMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    metadata_hash: int = 0  # int64
    validated_topology_epoch: int = -1  # int32
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = None


class StreamsGroupMemberMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class Endpoint(Struct, frozen=True):
    """Stands in `StreamsGroupMemberMetadataValue.user_endpoint`."""

    host: str = ""
    port: int = 0  # uint16


class KeyValue(Struct, frozen=True):
    """Stands in `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataValue(CoordinatorValue, frozen=True):
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


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    assignment_epoch: int = 0  # int32
    assignment_timestamp: int = 0  # int64


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class StreamsGroupTargetAssignmentMemberTaskIds(Struct, frozen=True):
    """Stands in `StreamsGroupTargetAssignmentMemberValue.active_tasks` and 2 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    active_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...] = ()


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""


class StreamsGroupCurrentMemberAssignmentTaskIds(Struct, frozen=True):
    """Stands in `StreamsGroupCurrentMemberAssignmentValue.active_tasks` and 5 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32
    assignment_epochs: tuple[int, ...] | None = None  # int32


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue, frozen=True):
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


class StreamsGroupTopologyKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""


class TopicConfig(Struct, frozen=True):
    """Stands in `TopicInfo.topic_configs`."""

    key: str = ""
    value: str = ""


class TopicInfo(Struct, frozen=True):
    """Stands in `Subtopology.state_changelog_topics` and 1 more."""

    name: str = ""
    partitions: int = 0  # int32
    replication_factor: int = 0  # int16
    topic_configs: tuple[TopicConfig, ...] = ()


class CopartitionGroup(Struct, frozen=True):
    """Stands in `Subtopology.copartition_groups`."""

    source_topics: tuple[int, ...] = ()  # int16
    source_topic_regex: tuple[int, ...] = ()  # int16
    repartition_source_topics: tuple[int, ...] = ()  # int16


class Subtopology(Struct, frozen=True):
    """Stands in `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(CoordinatorValue, frozen=True):
    """The record value, version 0, flexible from 0."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    epoch: int = 0  # int32
    subtopologies: tuple[Subtopology, ...] = ()
