"""SaslAuthenticate: exchange SASL tokens.

Written by tools/generate_protocol.py from schemas/messages/sasl_authenticate.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class SaslAuthenticateRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    auth_bytes: bytes = b""


class SaslAuthenticateResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0  # int16
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # int64, 1+
