"""SyncGroup: hand out and receive the assignment of a classic group.

Written by tools/generate_protocol.py from schemas/messages/sync_group.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class SyncGroupRequestAssignment(Struct, frozen=True):
    """Stands in `SyncGroupRequest.assignments`."""

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 4."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    group_id: str = ""
    generation_id: int = 0  # int32
    member_id: str = ""
    group_instance_id: str | None = None  # 3+
    protocol_type: str | None = None  # 5+
    protocol_name: str | None = None  # 5+
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 4."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32, 1+
    error_code: int = 0  # int16
    protocol_type: str | None = None  # 5+
    protocol_name: str | None = None  # 5+
    assignment: bytes = b""
