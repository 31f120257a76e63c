"""AddPartitionsToTxn: add partitions to transactions.

Written by tools/generate_protocol.py from schemas/messages/add_partitions_to_txn.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class AddPartitionsToTxnTopic(Struct, frozen=True):
    """Stands in `AddPartitionsToTxnRequest.v3_and_below_topics` and 1 more."""

    name: str = ""  # 0+
    partitions: tuple[int, ...] = ()  # int32, 0+


class AddPartitionsToTxnTransaction(Struct, frozen=True):
    """Stands in `AddPartitionsToTxnRequest.transactions`."""

    transactional_id: str = ""
    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(ApiMessage, frozen=True):
    """The request, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()  # 4+
    v3_and_below_transactional_id: str = ""  # 0-3
    v3_and_below_producer_id: int = 0  # int64, 0-3
    v3_and_below_producer_epoch: int = 0  # int16, 0-3
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()  # 0-3


class AddPartitionsToTxnPartitionResult(Struct, frozen=True):
    """Stands in `AddPartitionsToTxnTopicResult.results_by_partition`."""

    partition_index: int = 0  # int32
    partition_error_code: int = 0  # int16


class AddPartitionsToTxnTopicResult(Struct, frozen=True):
    """Stands in `AddPartitionsToTxnResponse.results_by_topic_v3_and_below` and 1 more."""

    name: str = ""  # 0+
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()  # 0+


class AddPartitionsToTxnResult(Struct, frozen=True):
    """Stands in `AddPartitionsToTxnResponse.results_by_transaction`."""

    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(ApiMessage, frozen=True):
    """The response, versions 0-5, flexible from 3."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16, 4+
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()  # 4+
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()  # 0-3
