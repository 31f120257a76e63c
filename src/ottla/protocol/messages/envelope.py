"""Envelope: a broker sends on to the controller what a client asked of it (KIP-590).

Written by tools/generate_protocol.py from schemas/messages/envelope.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class EnvelopeRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 58
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


class EnvelopeResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 58
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    response_data: bytes | None = None
    error_code: int = 0  # int16
