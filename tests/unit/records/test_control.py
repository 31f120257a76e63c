"""Transaction markers, against aiokafka's reader of control records."""

import pytest
from aiokafka.record._crecords.default_records import DefaultRecordBatch
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.native import decode_records, validate_batches
from ottla.native.errors import CorruptRecordError, InvalidRecordError
from ottla.records.control import ControlRecordType, EndTransactionMarker, decode_control_key, encode_control_key

MARKERS = {ControlRecordType.ABORT: ABORT_MARKER, ControlRecordType.COMMIT: COMMIT_MARKER}


@pytest.mark.parametrize("record_type", MARKERS)
def test_a_marker_is_what_another_client_takes_for_one(record_type: ControlRecordType) -> None:
    batch = EndTransactionMarker(record_type, 12).to_batch(producer_id=9, producer_epoch=3, timestamp_ms=1234)
    other = DefaultRecordBatch(bytes(batch))
    assert other.is_control_batch
    assert other.is_transactional
    (record,) = list(other)
    assert ControlRecord.parse(record.key) == MARKERS[record_type]
    (info,) = validate_batches(batch, allow_control=True)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.max_timestamp) == (9, 3, -1, 1234)


@pytest.mark.parametrize("record_type", MARKERS)
def test_a_marker_comes_back(record_type: ControlRecordType) -> None:
    marker = EndTransactionMarker(record_type, 2**31 - 1)
    batch = marker.to_batch(producer_id=9, producer_epoch=3, timestamp_ms=0)
    ((_, _, key, value, _),) = decode_records(batch, max_decompressed_bytes=0, include_control=True)
    assert EndTransactionMarker.decode(key, value) == marker


def test_a_client_cannot_send_one() -> None:
    batch = EndTransactionMarker(ControlRecordType.COMMIT, 0).to_batch(producer_id=9, producer_epoch=3, timestamp_ms=0)
    with pytest.raises(InvalidRecordError, match="control"):
        validate_batches(batch)


@pytest.mark.parametrize("record_type", ControlRecordType)
def test_keys_of_every_type_come_back(record_type: ControlRecordType) -> None:
    assert decode_control_key(encode_control_key(record_type)) is record_type


def test_types_and_versions_of_the_future_are_passed_over() -> None:
    assert decode_control_key(b"\0\0\x7f\xff") is ControlRecordType.UNKNOWN
    assert decode_control_key(b"\0\x09\0\x01 and more") is ControlRecordType.COMMIT
    assert EndTransactionMarker.decode(b"\0\0\0\0", b"\0\x05\0\0\0\x07 and more").coordinator_epoch == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"", b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        EndTransactionMarker.decode(key, value)


def test_other_control_records_end_no_transaction() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        EndTransactionMarker(ControlRecordType.LEADER_CHANGE, 0)
