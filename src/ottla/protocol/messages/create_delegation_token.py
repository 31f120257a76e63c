"""CreateDelegationToken: create a delegation token.

Written by tools/generate_protocol.py from schemas/messages/create_delegation_token.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class CreatableRenewers(Struct, frozen=True):
    """Stands in `CreateDelegationTokenRequest.renewers`."""

    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(ApiMessage, frozen=True):
    """The request, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 38
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    owner_principal_type: str | None = ""  # 3+
    owner_principal_name: str | None = ""  # 3+
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: int = 0  # int64


class CreateDelegationTokenResponse(ApiMessage, frozen=True):
    """The response, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 38
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    error_code: int = 0  # int16
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""  # 3+
    token_requester_principal_name: str = ""  # 3+
    issue_timestamp_ms: int = 0  # int64
    expiry_timestamp_ms: int = 0  # int64
    max_timestamp_ms: int = 0  # int64
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0  # int32
