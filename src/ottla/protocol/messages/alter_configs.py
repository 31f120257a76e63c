"""AlterConfigs: replace the settings of resources as a whole.

Written by tools/generate_protocol.py from schemas/messages/alter_configs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import ApiMessage


@dataclass(frozen=True, slots=True)
class AlterableConfig:
    """Stands in `AlterConfigsResource.configs`."""

    name: str = ""
    value: str | None = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResource:
    """Stands in `AlterConfigsRequest.resources`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(ApiMessage):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsResourceResponse:
    """Stands in `AlterConfigsResponse.responses`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    resource_type: int = 0  # int8
    resource_name: str = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse(ApiMessage):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
