"""FindCoordinator: find the broker that coordinates a group, transaction or share partition.

Written by tools/generate_protocol.py from schemas/messages/find_coordinator.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class FindCoordinatorRequest(ApiMessage, frozen=True):
    """The request, versions 0-6, flexible from 3."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6

    key: str = ""  # 0-3
    key_type: int = 0  # int8, 1+
    coordinator_keys: tuple[str, ...] = ()  # 4+


class Coordinator(Struct, frozen=True):
    """Stands in `FindCoordinatorResponse.coordinators`."""

    key: str = ""
    node_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""


class FindCoordinatorResponse(ApiMessage, frozen=True):
    """The response, versions 0-6, flexible from 3."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6

    throttle_time_ms: int = 0  # int32, 1+
    error_code: int = 0  # int16, 0-3
    error_message: str | None = ""  # 1-3
    node_id: int = 0  # int32, 0-3
    host: str = ""  # 0-3
    port: int = 0  # int32, 0-3
    coordinators: tuple[Coordinator, ...] = ()  # 4+
