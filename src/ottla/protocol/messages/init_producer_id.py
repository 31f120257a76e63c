"""InitProducerId: get a producer id and epoch for idempotence and transactions.

Written by tools/generate_protocol.py from schemas/messages/init_producer_id.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class InitProducerIdRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 2."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0  # int32
    producer_id: int = -1  # int64, 3+
    producer_epoch: int = -1  # int16, 3+


class InitProducerIdResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 2."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    producer_id: int = -1  # int64
    producer_epoch: int = 0  # int16
