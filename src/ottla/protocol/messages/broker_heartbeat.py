"""BrokerHeartbeat: a broker tells the controller that it is alive, and hears whether it may serve.

Written by tools/generate_protocol.py from schemas/messages/broker_heartbeat.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.protocol.message import ApiMessage


class BrokerHeartbeatRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 63
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    broker_id: int = 0  # int32
    broker_epoch: int = -1  # int64
    current_metadata_offset: int = 0  # int64
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()  # 1+
    cordoned_log_dirs: tuple[UUID, ...] | None = None  # 2+


class BrokerHeartbeatResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 63
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
