"""The constants of the header, against batches that another client writes."""

import struct

from ottla.native import crc32c, validate_batches
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    Attribute,
    TimestampType,
    next_sequence,
)
from tests.unit.native.independent_codec import aiokafka_batch

BATCH = aiokafka_batch([(1, None, b"value", [])], is_transactional=1, producer_id=1, producer_epoch=0, base_sequence=0)


def test_positions_are_those_of_another_clients_batch() -> None:
    assert struct.unpack_from(">i", BATCH, 8)[0] + LOG_OVERHEAD_BYTES == len(BATCH)
    assert BATCH[16] == MAGIC
    assert struct.unpack_from(">I", BATCH, CRC_POSITION)[0] == crc32c(BATCH[ATTRIBUTES_POSITION:])
    assert BATCH[HEADER_BYTES:].endswith(b"value\0")


def test_the_attributes_of_a_transactional_batch() -> None:
    (info,) = validate_batches(BATCH)
    assert Attribute(info.attributes) == Attribute.TRANSACTIONAL
    assert TimestampType(info.log_append_time) is TimestampType.CREATE_TIME


def test_sequence_numbers_go_on_from_zero() -> None:
    assert next_sequence(5, 3) == 8
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 4) == 2
