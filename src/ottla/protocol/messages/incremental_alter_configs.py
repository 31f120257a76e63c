"""IncrementalAlterConfigs: change single settings of resources.

Written by tools/generate_protocol.py from schemas/messages/incremental_alter_configs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class AlterableConfig(Struct, frozen=True):
    """Stands in `AlterConfigsResource.configs`."""

    name: str = ""
    config_operation: int = 0  # int8
    value: str | None = ""


class AlterConfigsResource(Struct, frozen=True):
    """Stands in `IncrementalAlterConfigsRequest.resources`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True):
    """Stands in `IncrementalAlterConfigsResponse.responses`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    resource_type: int = 0  # int8
    resource_name: str = ""


class IncrementalAlterConfigsResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, flexible from 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0  # int32
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
