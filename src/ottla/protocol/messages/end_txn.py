"""EndTxn: commit or abort a transaction.

Written by tools/generate_protocol.py from schemas/messages/end_txn.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class EndTxnRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    transactional_id: str = ""
    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    committed: bool = False


class EndTxnResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    producer_id: int = -1  # int64, 5+
    producer_epoch: int = -1  # int16, 5+
