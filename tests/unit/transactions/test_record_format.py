"""The bytes of transaction records, against what Apache Kafka's message definitions say they are."""

import struct

import pytest

from ottla.native.errors import MessageError
from ottla.transactions import record_format
from ottla.transactions.records import TransactionRecord
from ottla.transactions.transaction import Transaction
from ottla.transactions.transaction_state import TransactionState

ONGOING = Transaction(
    producer_id=4000,
    producer_epoch=5,
    timeout_ms=60_000,
    updated_ms=1_700_000_000_500,
    state=TransactionState.ONGOING,
    partitions={"orders": frozenset({0, 2})},
    start_ms=1_700_000_000_000,
    previous_producer_id=4000,
    client_version=2,
)


def test_the_key_is_the_type_and_the_transactional_id():
    key, _ = record_format.encode(TransactionRecord("pay", None))
    assert key == struct.pack(">hh", 0, 3) + b"pay"


def test_version_0_of_the_value_has_the_fields_that_every_kafka_reads():
    _, value = record_format.encode(TransactionRecord("pay", ONGOING), 0)
    assert value == (
        struct.pack(">hqhibi", 0, 4000, 5, 60_000, 1, 1)
        + struct.pack(">h", 6)
        + b"orders"
        + struct.pack(">iii", 2, 0, 2)
        + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)
    )


def test_version_1_tells_the_previous_and_next_producer_id_and_the_clients_version_in_tagged_fields():
    _, value = record_format.encode(TransactionRecord("pay", ONGOING))
    assert value == (
        struct.pack(">hqhib", 1, 4000, 5, 60_000, 1)
        + b"\x02\x07orders\x03"
        + struct.pack(">ii", 0, 2)
        + b"\x00"
        + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)
        + b"\x02"
        + b"\x00\x08"
        + struct.pack(">q", 4000)
        + b"\x02\x02"
        + struct.pack(">h", 2)
    )


def test_an_empty_transaction_has_no_list_of_partitions():
    _, value = record_format.encode(TransactionRecord("pay", Transaction(7, 0, 1_000, 5)), 0)
    assert value is not None
    assert value[17:21] == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("version", [0, 1])
def test_what_was_written_is_read(version: int):
    read = record_format.decode(*record_format.encode(TransactionRecord("pay", ONGOING), version))
    assert read is not None
    assert read.transaction is not None
    assert read.transaction.partitions == ONGOING.partitions
    assert (read.transaction == ONGOING) == (version == 1)


def test_a_topic_that_is_named_twice_has_all_its_partitions():
    _, value = record_format.encode(TransactionRecord("pay", ONGOING), 0)
    assert value is not None
    topic = struct.pack(">h6si", 6, b"orders", 1)
    twice = (
        value[:17] + struct.pack(">i", 2) + topic + struct.pack(">i", 1) + topic + struct.pack(">i", 4) + value[-16:]
    )
    read = record_format.decode(record_format.encode(TransactionRecord("pay", None))[0], twice)
    assert read is not None
    assert read.transaction is not None
    assert read.transaction.partitions == {"orders": frozenset({1, 4})}


@pytest.mark.parametrize("state", [6, 7, 9])
def test_a_state_that_nobody_stores_is_said_to_be_broken(state: int):
    key, value = record_format.encode(TransactionRecord("pay", ONGOING), 0)
    assert value is not None
    with pytest.raises(MessageError, match=f"in state {state}"):
        record_format.decode(key, value[:16] + bytes([state]) + value[17:])


def test_records_of_other_kinds_are_passed_over():
    assert record_format.decode(struct.pack(">hh", 7, 0), b"") is None
