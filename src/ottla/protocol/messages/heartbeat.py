"""Heartbeat: keep a member of a classic group alive.

Written by tools/generate_protocol.py from schemas/messages/heartbeat.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class HeartbeatRequest(ApiMessage, frozen=True):
    """The request, versions 0-4, flexible from 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    group_id: str = ""
    generation_id: int = 0  # int32
    member_id: str = ""
    group_instance_id: str | None = None  # 3+


class HeartbeatResponse(ApiMessage, frozen=True):
    """The response, versions 0-4, flexible from 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0  # int32, 1+
    error_code: int = 0  # int16
