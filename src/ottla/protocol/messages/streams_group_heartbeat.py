"""StreamsGroupHeartbeat: heartbeat of a member of a streams group (KIP-1071).

Written by tools/generate_protocol.py from schemas/messages/streams_group_heartbeat.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class KeyValue(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatRequest.client_tags` and 1 more."""

    key: str = ""
    value: str = ""


class TopicInfo(Struct, frozen=True):
    """Stands in `Subtopology.state_changelog_topics` and 1 more."""

    name: str = ""
    partitions: int = 0  # int32
    replication_factor: int = 0  # int16
    topic_configs: tuple[KeyValue, ...] = ()


class CopartitionGroup(Struct, frozen=True):
    """Stands in `Subtopology.copartition_groups`."""

    source_topics: tuple[int, ...] = ()  # int16
    source_topic_regex: tuple[int, ...] = ()  # int16
    repartition_source_topics: tuple[int, ...] = ()  # int16


class Subtopology(Struct, frozen=True):
    """Stands in `Topology.subtopologies`."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class Topology(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatRequest.topology`."""

    epoch: int = 0  # int32
    subtopologies: tuple[Subtopology, ...] = ()


class TaskIds(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatRequest.active_tasks` and 5 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32


class Endpoint(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatRequest.user_endpoint` and 1 more."""

    host: str = ""
    port: int = 0  # uint16


class TaskOffset(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatRequest.task_offsets` and 1 more."""

    subtopology_id: str = ""
    partition: int = 0  # int32
    offset: int = 0  # int64


class StreamsGroupHeartbeatRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 88
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # int32
    endpoint_information_epoch: int = 0  # int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # int32
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = False


class Status(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatResponse.status`."""

    status_code: int = 0  # int8
    status_detail: str = ""


class TopicPartition(Struct, frozen=True):
    """Stands in `EndpointToPartitions.active_partitions` and 1 more."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class EndpointToPartitions(Struct, frozen=True):
    """Stands in `StreamsGroupHeartbeatResponse.partitions_by_user_endpoint`."""

    user_endpoint: Endpoint = Endpoint()
    active_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


class StreamsGroupHeartbeatResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 88
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0  # int32
    heartbeat_interval_ms: int = 0  # int32
    acceptable_recovery_lag: int = 0  # int32
    task_offset_interval_ms: int = 0  # int32
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    endpoint_information_epoch: int = 0  # int32
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None
