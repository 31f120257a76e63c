"""GetTelemetrySubscriptions: ask which client metrics the broker wants (KIP-714).

Written by tools/generate_protocol.py from schemas/messages/get_telemetry_subscriptions.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from ottla.protocol.message import ZERO_UUID, ApiMessage


class GetTelemetrySubscriptionsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 71
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    client_instance_id: UUID = ZERO_UUID


class GetTelemetrySubscriptionsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 71
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    client_instance_id: UUID = ZERO_UUID
    subscription_id: int = 0  # int32
    accepted_compression_types: tuple[int, ...] = ()  # int8
    push_interval_ms: int = 0  # int32
    telemetry_max_bytes: int = 0  # int32
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()
