"""AllocateProducerIds: a broker asks the controller for a block of producer ids (KIP-730).

Written by tools/generate_protocol.py from schemas/messages/allocate_producer_ids.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.protocol.message import ApiMessage


class AllocateProducerIdsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 67
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0  # int32
    broker_epoch: int = -1  # int64


class AllocateProducerIdsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 67
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    producer_id_start: int = 0  # int64
    producer_id_len: int = 0  # int32
