"""The headers in front of every request and response.

Written by tools/generate_protocol.py from schemas/messages/header.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import Message


class RequestHeader(Message, frozen=True):
    """The data, versions 1-2, flexible from 2."""

    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    request_api_key: int = 0  # int16
    request_api_version: int = 0  # int16
    correlation_id: int = 0  # int32
    client_id: str | None = ""


class ResponseHeader(Message, frozen=True):
    """The data, versions 0-1, flexible from 1."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    correlation_id: int = 0  # int32
