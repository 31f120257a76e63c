"""DescribeTransactions: describe transactions by transactional id.

Written by tools/generate_protocol.py from schemas/messages/describe_transactions.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeTransactionsRequest(ApiMessage, frozen=True):
    """The request, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 65
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    transactional_ids: tuple[str, ...] = ()


class TopicData(Struct, frozen=True):
    """Stands in `TransactionState.topics`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class TransactionState(Struct, frozen=True):
    """Stands in `DescribeTransactionsResponse.transaction_states`."""

    error_code: int = 0  # int16
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0  # int32
    transaction_start_time_ms: int = 0  # int64
    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(ApiMessage, frozen=True):
    """The response, version 0, flexible from 0."""

    API_KEY: ClassVar[int] = 65
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0  # int32
    transaction_states: tuple[TransactionState, ...] = ()
