"""ShareGroupDescribe: describe share groups.

Written by tools/generate_protocol.py from schemas/messages/share_group_describe.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class ShareGroupDescribeRequest(ApiMessage, frozen=True):
    """The request, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 77
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Struct, frozen=True):
    """Stands in `Assignment.topic_partitions`."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()  # int32


class Assignment(Struct, frozen=True):
    """Stands in `Member.assignment`."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Struct, frozen=True):
    """Stands in `DescribedGroup.members`."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0  # int32
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: Assignment = Assignment()


class DescribedGroup(Struct, frozen=True):
    """Stands in `ShareGroupDescribeResponse.groups`."""

    error_code: int = 0  # int16
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0  # int32
    assignment_epoch: int = 0  # int32
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648  # int32


class ShareGroupDescribeResponse(ApiMessage, frozen=True):
    """The response, version 1, flexible from 1."""

    API_KEY: ClassVar[int] = 77
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    groups: tuple[DescribedGroup, ...] = ()
