"""AlterClientQuotas: change client quotas.

Written by tools/generate_protocol.py from schemas/messages/alter_client_quotas.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ApiMessage


@dataclass(frozen=True, slots=True)
class EntityData:
    """Stands in `RequestEntryData.entity` and 1 more."""

    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(frozen=True, slots=True)
class OpData:
    """Stands in `RequestEntryData.ops`."""

    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(frozen=True, slots=True)
class RequestEntryData:
    """Stands in `AlterClientQuotasRequest.entries`."""

    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterClientQuotasRequest(ApiMessage):
    """The request, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 49
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    entries: tuple[RequestEntryData, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ResponseEntryData:
    """Stands in `AlterClientQuotasResponse.entries`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    entity: tuple[EntityData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterClientQuotasResponse(ApiMessage):
    """The response, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 49
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    entries: tuple[ResponseEntryData, ...] = ()
