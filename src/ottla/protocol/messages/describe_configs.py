"""DescribeConfigs: describe the settings of topics, brokers and other resources.

Written by tools/generate_protocol.py from schemas/messages/describe_configs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeConfigsResource(Struct, frozen=True):
    """Stands in `DescribeConfigsRequest.resources`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()


class DescribeConfigsRequest(ApiMessage, frozen=True):
    """The request, versions 1-4, flexible from 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: bool = False  # 3+


class DescribeConfigsSynonym(Struct, frozen=True):
    """Stands in `DescribeConfigsResourceResult.synonyms`."""

    name: str = ""
    value: str | None = ""
    source: int = 0  # int8


class DescribeConfigsResourceResult(Struct, frozen=True):
    """Stands in `DescribeConfigsResult.configs`."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1  # int8
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0  # int8, 3+
    documentation: str | None = ""  # 3+


class DescribeConfigsResult(Struct, frozen=True):
    """Stands in `DescribeConfigsResponse.results`."""

    error_code: int = 0  # int16
    error_message: str | None = ""
    resource_type: int = 0  # int8
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(ApiMessage, frozen=True):
    """The response, versions 1-4, flexible from 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0  # int32
    results: tuple[DescribeConfigsResult, ...] = ()
