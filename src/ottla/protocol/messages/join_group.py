"""JoinGroup: join a classic consumer group and wait for the rebalance.

Written by tools/generate_protocol.py from schemas/messages/join_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class JoinGroupRequestProtocol(Struct, frozen=True):
    """Stands in `JoinGroupRequest.protocols`."""

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(ApiMessage, frozen=True):
    """The request, versions 0-9, flexible from 6."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9

    group_id: str = ""
    session_timeout_ms: int = 0  # int32
    rebalance_timeout_ms: int = -1  # int32, 1+
    member_id: str = ""
    group_instance_id: str | None = None  # 5+
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: str | None = None  # 8+


class JoinGroupResponseMember(Struct, frozen=True):
    """Stands in `JoinGroupResponse.members`."""

    member_id: str = ""
    group_instance_id: str | None = None  # 5+
    metadata: bytes = b""


class JoinGroupResponse(ApiMessage, frozen=True):
    """The response, versions 0-9, flexible from 6."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9

    throttle_time_ms: int = 0  # int32, 2+
    error_code: int = 0  # int16
    generation_id: int = -1  # int32
    protocol_type: str | None = None  # 7+
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # 9+
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
