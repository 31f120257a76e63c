"""DescribeDelegationToken: describe delegation tokens.

Written by tools/generate_protocol.py from schemas/messages/describe_delegation_token.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeDelegationTokenOwner(Struct, frozen=True):
    """Stands in `DescribeDelegationTokenRequest.owners`."""

    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(ApiMessage, frozen=True):
    """The request, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 41
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = ()


class DescribedDelegationTokenRenewer(Struct, frozen=True):
    """Stands in `DescribedDelegationToken.renewers`."""

    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(Struct, frozen=True):
    """Stands in `DescribeDelegationTokenResponse.tokens`."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""  # 3+
    token_requester_principal_name: str = ""  # 3+
    issue_timestamp: int = 0  # int64
    expiry_timestamp: int = 0  # int64
    max_timestamp: int = 0  # int64
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


class DescribeDelegationTokenResponse(ApiMessage, frozen=True):
    """The response, versions 1-3, flexible from 2."""

    API_KEY: ClassVar[int] = 41
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3

    error_code: int = 0  # int16
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: int = 0  # int32
