"""The records of internal topics, by bytes put together from Kafka's own schemas by hand."""

import pytest

from ottla.native.errors import MessageError
from ottla.protocol.coordinator_record import decode_key, decode_value, encode_key, encode_value, record_type
from ottla.protocol.coordinator_records.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.protocol.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.protocol.message import CoordinatorKey, CoordinatorValue

KEYS = [
    (OffsetCommitKey(group="g", topic="top", partition=2), "0001 0001 67 0003 746f70 00000002"),
    (GroupMetadataKey(group="g"), "0002 0001 67"),
    (TransactionLogKey(transactional_id="tx"), "0000 0002 7478"),
]
VALUES = [
    (
        OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=7),
        3,
        "0003 0000000000000005 00000001 0001 6d 0000000000000007",
    ),
    (
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=7, expire_timestamp=9),
        1,
        "0001 0000000000000005 0000 0000000000000007 0000000000000009",
    ),
    (
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m",
            current_state_timestamp=7,
            members=(
                MemberMetadata(
                    member_id="m",
                    group_instance_id=None,
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=3,
                    session_timeout=4,
                    subscription=b"s",
                    assignment=b"a",
                ),
            ),
        ),
        3,
        """0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 6d 0000000000000007
        00000001 0001 6d ffff 0001 63 0002 2f68 00000003 00000004 00000001 73 00000001 61""",
    ),
    (
        TransactionLogValue(
            producer_id=1,
            producer_epoch=2,
            transaction_timeout_ms=3,
            transaction_status=4,
            transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(6,)),),
            transaction_last_update_timestamp_ms=7,
            transaction_start_timestamp_ms=8,
            client_transaction_version=2,
        ),
        1,
        """0001 0000000000000001 0002 00000003 04 02 02 74 02 00000006 00
        0000000000000007 0000000000000008 01 02 02 0002""",
    ),
    (
        ConsumerGroupMemberMetadataValue(
            rebalance_timeout_ms=3,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=4, supported_protocols=(ClassicProtocol(name="r", metadata=b"m"),)
            ),
        ),
        0,
        "0000 01 01 01 01 01 01 00000003 01 01 00 0c 01 00000004 02 02 72 02 6d 00 00",
    ),
]


@pytest.mark.parametrize(("key", "data"), KEYS, ids=lambda each: type(each).__name__)
def test_a_key_starts_with_its_record_type(key: CoordinatorKey, data: str) -> None:
    assert encode_key(key) == bytes.fromhex(data)
    assert record_type(bytes.fromhex(data)) == key.RECORD_TYPE
    assert decode_key(type(key), bytes.fromhex(data)) == key


@pytest.mark.parametrize(("value", "version", "data"), VALUES, ids=lambda each: type(each).__name__)
def test_a_value_starts_with_its_version(value: CoordinatorValue, version: int, data: str) -> None:
    assert encode_value(value, version) == bytes.fromhex(data)
    assert decode_value(type(value), memoryview(bytes.fromhex(data))) == value


def test_a_key_or_value_without_its_first_two_bytes_is_refused() -> None:
    for data in (b"", b"\0"):
        with pytest.raises(MessageError, match="ends within its type"):
            record_type(data)
        with pytest.raises(MessageError, match="ends within its version"):
            decode_value(OffsetCommitValue, data)


def test_a_value_of_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MessageError, match="OffsetCommitValue has the versions 0-4, not 5"):
        decode_value(OffsetCommitValue, b"\0\5" + bytes(20))
