"""The bytes of a transaction coordinator's records, as Apache Kafka writes and reads them.

The key (type 0) is the transactional id. The value is of version 1, flexible, with the client's transaction version and
the previous and next producer id among its tagged fields (KIP-890), or of version 0 while the cluster's
transaction.version is 0. A tombstone has the key alone. An empty transaction has no list of partitions, rather than an
empty one.
"""

from typing import Final

from msgspec.structs import replace

from ottla.native.errors import MessageError
from ottla.protocol.coordinator_record import decode_key, decode_value, encode_key, encode_value, record_type
from ottla.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.transactions.records import TransactionRecord
from ottla.transactions.transaction import NO_PARTITIONS, Transaction
from ottla.transactions.transaction_state import TRANSITIONS, TransactionState

FLEXIBLE_VERSION = 1

_STORED: Final = {int(state): state for state in TransactionState if TRANSITIONS[state]}
"""Those that lead somewhere: a step from another would fail, again and again."""


def encode(record: TransactionRecord, value_version: int = FLEXIBLE_VERSION) -> tuple[bytes, bytes | None]:
    """The key and value of a record; the value is None for a tombstone."""
    key = encode_key(TransactionLogKey(transactional_id=record.transactional_id))
    return key, None if record.transaction is None else encode_transaction(record.transaction, value_version)


def encode_transaction(transaction: Transaction, value_version: int = FLEXIBLE_VERSION) -> bytes:
    """The value of the record of a transaction."""
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = tuple(
            PartitionsSchema(topic=topic, partition_ids=tuple(sorted(numbers)))
            for topic, numbers in transaction.partitions.items()
        )
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if value_version >= FLEXIBLE_VERSION:
        value = replace(
            value,
            previous_producer_id=transaction.previous_producer_id,
            next_producer_id=transaction.next_producer_id,
            client_transaction_version=transaction.client_version,
        )
    return encode_value(value, value_version)


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The record, or None for a kind that is not known. Raises MessageError for bytes that are not what they say."""
    if record_type(key) != TransactionLogKey.RECORD_TYPE:
        return None
    transactional_id = decode_key(TransactionLogKey, key).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    said = decode_value(TransactionLogValue, value)
    state = _STORED.get(said.transaction_status)
    if state is None:
        raise MessageError(f"transaction log value: no transaction is stored in state {said.transaction_status}")
    partitions: dict[str, frozenset[int]] = {}
    for each in said.transaction_partitions or ():
        partitions[each.topic] = partitions.get(each.topic, frozenset()) | frozenset(each.partition_ids)
    return TransactionRecord(
        transactional_id,
        Transaction(
            producer_id=said.producer_id,
            producer_epoch=said.producer_epoch,
            timeout_ms=said.transaction_timeout_ms,
            updated_ms=said.transaction_last_update_timestamp_ms,
            state=state,
            partitions=partitions or NO_PARTITIONS,
            start_ms=said.transaction_start_timestamp_ms,
            previous_producer_id=said.previous_producer_id,
            next_producer_id=said.next_producer_id,
            client_version=said.client_transaction_version,
        ),
    )
