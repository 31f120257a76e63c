"""ListConfigResources: list the resources that have settings.

Written by tools/generate_protocol.py from schemas/messages/list_config_resources.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ListConfigResourcesRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 74
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    resource_types: tuple[int, ...] = ()  # int8, 1+


class ConfigResource(Struct, frozen=True):
    """Stands in `ListConfigResourcesResponse.config_resources`."""

    resource_name: str = ""
    resource_type: int = 16  # int8, 1+


class ListConfigResourcesResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 0."""

    API_KEY: ClassVar[int] = 74
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    config_resources: tuple[ConfigResource, ...] = ()
