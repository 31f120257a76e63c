"""DescribeGroups: describe classic groups and their members.

Written by tools/generate_protocol.py from schemas/messages/describe_groups.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeGroupsRequest(ApiMessage, frozen=True):
    """The request, versions 0-6, flexible from 5."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False  # 3+


class DescribedGroupMember(Struct, frozen=True):
    """Stands in `DescribedGroup.members`."""

    member_id: str = ""
    group_instance_id: str | None = None  # 4+
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct, frozen=True):
    """Stands in `DescribeGroupsResponse.groups`."""

    error_code: int = 0  # int16
    error_message: str | None = None  # 6+
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -2147483648  # int32, 3+


class DescribeGroupsResponse(ApiMessage, frozen=True):
    """The response, versions 0-6, flexible from 5."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6

    throttle_time_ms: int = 0  # int32, 1+
    groups: tuple[DescribedGroup, ...] = ()
