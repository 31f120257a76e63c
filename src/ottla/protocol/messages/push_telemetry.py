"""PushTelemetry: push client metrics (KIP-714).

Written by tools/generate_protocol.py from schemas/messages/push_telemetry.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.protocol.message import ZERO_UUID, ApiMessage


class PushTelemetryRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 72
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    client_instance_id: UUID = ZERO_UUID
    subscription_id: int = 0  # int32
    terminating: bool = False
    compression_type: int = 0  # int8
    metrics: bytes = b""


class PushTelemetryResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 72
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
