"""LeaveGroup: leave a classic group, for one or many members.

Written by tools/generate_protocol.py from schemas/messages/leave_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class MemberIdentity(Struct, frozen=True):
    """Stands in `LeaveGroupRequest.members`."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None  # 5+


class LeaveGroupRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 4."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    group_id: str = ""
    member_id: str = ""  # 0-2
    members: tuple[MemberIdentity, ...] = ()  # 3+


class MemberResponse(Struct, frozen=True):
    """Stands in `LeaveGroupResponse.members`."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0  # int16


class LeaveGroupResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 4."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32, 1+
    error_code: int = 0  # int16
    members: tuple[MemberResponse, ...] = ()  # 3+
