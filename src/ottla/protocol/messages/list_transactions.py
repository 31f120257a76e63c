"""ListTransactions: list transactions by state, producer and age.

Written by tools/generate_protocol.py from schemas/messages/list_transactions.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class ListTransactionsRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 66
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()  # int64
    duration_filter: int = -1  # int64, 1+
    transactional_id_pattern: str | None = None  # 2+


class TransactionState(Struct, frozen=True):
    """Stands in `ListTransactionsResponse.transaction_states`."""

    transactional_id: str = ""
    producer_id: int = 0  # int64
    transaction_state: str = ""


class ListTransactionsResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 66
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()
