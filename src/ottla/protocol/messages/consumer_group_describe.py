"""ConsumerGroupDescribe: describe consumer groups (KIP-848).

Written by tools/generate_protocol.py from schemas/messages/consumer_group_describe.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 69
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Struct, frozen=True):
    """Stands in `Assignment.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


class Assignment(Struct, frozen=True):
    """Stands in `Member.assignment` and 1 more."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Struct, frozen=True):
    """Stands in `DescribedGroup.members`."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0  # int32
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: int = -1  # int8, 1+


class DescribedGroup(Struct, frozen=True):
    """Stands in `ConsumerGroupDescribeResponse.groups`."""

    error_code: int = 0  # int16
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0  # int32
    assignment_epoch: int = 0  # int32
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648  # int32


class ConsumerGroupDescribeResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 69
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    groups: tuple[DescribedGroup, ...] = ()
