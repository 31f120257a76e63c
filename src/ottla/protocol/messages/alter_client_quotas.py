"""AlterClientQuotas: change client quotas.

Written by tools/generate_protocol.py from schemas/messages/alter_client_quotas.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class EntityData(Struct, frozen=True):
    """Stands in `RequestEntryData.entity` and 1 more."""

    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Struct, frozen=True):
    """Stands in `RequestEntryData.ops`."""

    key: str = ""
    value: float = 0.0
    remove: bool = False


class RequestEntryData(Struct, frozen=True):
    """Stands in `AlterClientQuotasRequest.entries`."""

    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


class AlterClientQuotasRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 49
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    entries: tuple[RequestEntryData, ...] = ()
    validate_only: bool = False


class ResponseEntryData(Struct, frozen=True):
    """Stands in `AlterClientQuotasResponse.entries`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    entity: tuple[EntityData, ...] = ()


class AlterClientQuotasResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 49
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    entries: tuple[ResponseEntryData, ...] = ()
