"""RenewDelegationToken: renew a delegation token.

Written by tools/generate_protocol.py from schemas/messages/renew_delegation_token.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class RenewDelegationTokenRequest(ApiMessage, frozen=True):
    """The request, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 39
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    hmac: bytes = b""
    renew_period_ms: int = 0  # int64


class RenewDelegationTokenResponse(ApiMessage, frozen=True):
    """The response, versions 1-2, flexible from 2."""

    API_KEY: ClassVar[int] = 39
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0  # int16
    expiry_timestamp_ms: int = 0  # int64
    throttle_time_ms: int = 0  # int32
