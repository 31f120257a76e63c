"""AlterConfigs: replace the settings of resources as a whole.

Written by tools/generate_protocol.py from schemas/messages/alter_configs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class AlterableConfig(Struct, frozen=True):
    """Stands in `AlterConfigsResource.configs`."""

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Struct, frozen=True):
    """Stands in `AlterConfigsRequest.resources`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True):
    """Stands in `AlterConfigsResponse.responses`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    resource_type: int = 0  # int8
    resource_name: str = ""


class AlterConfigsResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
