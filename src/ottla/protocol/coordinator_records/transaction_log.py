"""Transactions by transactional id, in __transaction_state.

Written by tools/generate_protocol.py from schemas/coordinator_records/transaction_log.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import CoordinatorKey, CoordinatorValue


class TransactionLogKey(CoordinatorKey, frozen=True):
    """The record key, version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    transactional_id: str = ""


class PartitionsSchema(Struct, frozen=True):
    """Stands in `TransactionLogValue.transaction_partitions`."""

    topic: str = ""
    partition_ids: tuple[int, ...] = ()  # int32


class TransactionLogValue(CoordinatorValue, frozen=True):
    """The record value, versions 0-1, flexible from 1."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    producer_id: int = 0  # int64
    previous_producer_id: int = -1  # int64, 1+
    next_producer_id: int = -1  # int64, 1+
    producer_epoch: int = 0  # int16
    next_producer_epoch: int = -1  # int16, 1+
    transaction_timeout_ms: int = 0  # int32
    transaction_status: int = 0  # int8
    transaction_partitions: tuple[PartitionsSchema, ...] | None = ()
    transaction_last_update_timestamp_ms: int = 0  # int64
    transaction_start_timestamp_ms: int = 0  # int64
    client_transaction_version: int = 0  # int16, 1+
