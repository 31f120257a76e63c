"""CreateAcls: create access control entries.

Written by tools/generate_protocol.py from schemas/messages/create_acls.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class AclCreation(Struct, frozen=True):
    """Stands in `CreateAclsRequest.creations`."""

    resource_type: int = 0  # int8
    resource_name: str = ""
    resource_pattern_type: int = 3  # int8
    principal: str = ""
    host: str = ""
    operation: int = 0  # int8
    permission_type: int = 0  # int8


class CreateAclsRequest(ApiMessage, frozen=True):
    """The request, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 30
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(Struct, frozen=True):
    """Stands in `CreateAclsResponse.results`."""

    error_code: int = 0  # int16
    error_message: str | None = ""


class CreateAclsResponse(ApiMessage, frozen=True):
    """The response, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 30
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    throttle_time_ms: int = 0  # int32
    results: tuple[AclCreationResult, ...] = ()
