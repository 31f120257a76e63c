"""DescribeUserScramCredentials: describe SCRAM credentials.

Written by tools/generate_protocol.py from schemas/messages/describe_user_scram_credentials.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class UserName(Struct, frozen=True):
    """Stands in `DescribeUserScramCredentialsRequest.users`."""

    name: str = ""


class DescribeUserScramCredentialsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 50
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    users: tuple[UserName, ...] | None = ()


class CredentialInfo(Struct, frozen=True):
    """Stands in `DescribeUserScramCredentialsResult.credential_infos`."""

    mechanism: int = 0  # int8
    iterations: int = 0  # int32


class DescribeUserScramCredentialsResult(Struct, frozen=True):
    """Stands in `DescribeUserScramCredentialsResponse.results`."""

    user: str = ""
    error_code: int = 0  # int16
    error_message: str | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 50
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
