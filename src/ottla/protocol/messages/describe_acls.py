"""DescribeAcls: list access control entries by filter.

Written by tools/generate_protocol.py from schemas/messages/describe_acls.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeAclsRequest(ApiMessage, frozen=True):
    """The request, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 29
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    resource_type_filter: int = 0  # int8
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3  # int8
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0  # int8
    permission_type: int = 0  # int8


class AclDescription(Struct, frozen=True):
    """Stands in `DescribeAclsResource.acls`."""

    principal: str = ""
    host: str = ""
    operation: int = 0  # int8
    permission_type: int = 0  # int8


class DescribeAclsResource(Struct, frozen=True):
    """Stands in `DescribeAclsResponse.resources`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    pattern_type: int = 3  # int8
    acls: tuple[AclDescription, ...] = ()


class DescribeAclsResponse(ApiMessage, frozen=True):
    """The response, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 29
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()
