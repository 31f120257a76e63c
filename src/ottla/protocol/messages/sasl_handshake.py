"""SaslHandshake: choose a SASL mechanism.

Written by tools/generate_protocol.py from schemas/messages/sasl_handshake.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class SaslHandshakeRequest(ApiMessage, frozen=True):
    """The request, versions 0-1, never flexible."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    mechanism: str = ""


class SaslHandshakeResponse(ApiMessage, frozen=True):
    """The response, versions 0-1, never flexible."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0  # int16
    mechanisms: tuple[str, ...] = ()
