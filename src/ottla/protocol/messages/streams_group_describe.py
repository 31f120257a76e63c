"""StreamsGroupDescribe: describe streams groups.

Written by tools/generate_protocol.py from schemas/messages/streams_group_describe.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class StreamsGroupDescribeRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 89
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class KeyValue(Struct, frozen=True):
    """Stands in `Member.client_tags` and 1 more."""

    key: str = ""
    value: str = ""


class TopicInfo(Struct, frozen=True):
    """Stands in `Subtopology.state_changelog_topics` and 1 more."""

    name: str = ""
    partitions: int = 0  # int32
    replication_factor: int = 0  # int16
    topic_configs: tuple[KeyValue, ...] = ()


class Subtopology(Struct, frozen=True):
    """Stands in `Topology.subtopologies`."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


class Topology(Struct, frozen=True):
    """Stands in `DescribedGroup.topology`."""

    epoch: int = 0  # int32
    subtopologies: tuple[Subtopology, ...] | None = None


class Endpoint(Struct, frozen=True):
    """Stands in `Member.user_endpoint`."""

    host: str = ""
    port: int = 0  # uint16


class TaskOffset(Struct, frozen=True):
    """Stands in `Member.task_offsets` and 1 more."""

    subtopology_id: str = ""
    partition: int = 0  # int32
    offset: int = 0  # int64


class TaskIds(Struct, frozen=True):
    """Stands in `Assignment.active_tasks` and 2 more."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()  # int32


class Assignment(Struct, frozen=True):
    """Stands in `Member.assignment` and 1 more."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


class Member(Struct, frozen=True):
    """Stands in `DescribedGroup.members`."""

    member_id: str = ""
    member_epoch: int = 0  # int32
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0  # int32
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


class DescribedGroup(Struct, frozen=True):
    """Stands in `StreamsGroupDescribeResponse.groups`."""

    error_code: int = 0  # int16
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0  # int32
    assignment_epoch: int = 0  # int32
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648  # int32


class StreamsGroupDescribeResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 89
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    groups: tuple[DescribedGroup, ...] = ()
