"""ShareReads: what a broker asks the leader of share partitions that it reads; an API of Ottla alone, between brokers.

Written by tools/generate_protocol.py from schemas/messages/share_reads.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class ShareReadsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31003
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    data: bytes = b""


class ShareReadsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 31003
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0  # int16
    error_message: str | None = None
    data: bytes = b""
