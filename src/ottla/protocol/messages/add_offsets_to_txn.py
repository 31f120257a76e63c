"""AddOffsetsToTxn: add a group's offsets partition to a transaction.

Written by tools/generate_protocol.py from schemas/messages/add_offsets_to_txn.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class AddOffsetsToTxnRequest(ApiMessage, frozen=True):
    """The request, versions 0-4, flexible from 3."""

    API_KEY: ClassVar[int] = 25
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    transactional_id: str = ""
    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    group_id: str = ""


class AddOffsetsToTxnResponse(ApiMessage, frozen=True):
    """The response, versions 0-4, flexible from 3."""

    API_KEY: ClassVar[int] = 25
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
