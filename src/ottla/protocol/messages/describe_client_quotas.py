"""DescribeClientQuotas: describe client quotas by filter.

Written by tools/generate_protocol.py from schemas/messages/describe_client_quotas.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ComponentData(Struct, frozen=True):
    """Stands in `DescribeClientQuotasRequest.components`."""

    entity_type: str = ""
    match_type: int = 0  # int8
    match: str | None = ""


class DescribeClientQuotasRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 48
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    components: tuple[ComponentData, ...] = ()
    strict: bool = False


class EntityData(Struct, frozen=True):
    """Stands in `EntryData.entity`."""

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Struct, frozen=True):
    """Stands in `EntryData.values`."""

    key: str = ""
    value: float = 0.0


class EntryData(Struct, frozen=True):
    """Stands in `DescribeClientQuotasResponse.entries`."""

    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


class DescribeClientQuotasResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 48
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
    entries: tuple[EntryData, ...] | None = ()
