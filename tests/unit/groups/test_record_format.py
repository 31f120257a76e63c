"""The formats are written out here by hand, from the schemas of Apache Kafka's group coordinator."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.group import GroupType
from ottla.groups.record_format import decode, encode, kind_of
from ottla.groups.records import (
    CommittedOffset,
    GroupRecord,
    GroupSnapshot,
    KeyedRecord,
    MemberSnapshot,
    OffsetRecord,
)
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.coordinator_records.consumer_group import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue

TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
PARTITION = TopicPartition("flights", 3)


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def offset_key(group: str) -> bytes:
    return struct.pack(">h", 1) + string(group) + string("flights") + struct.pack(">i", 3)


def test_an_offset_is_written_as_kafka_writes_it():
    record = OffsetRecord("g", PARTITION, CommittedOffset(42, 7, "note", 1_700_000_000_000))
    key, value = encode(record)
    assert key == offset_key("g")
    assert value == struct.pack(">hqi", 3, 42, 7) + string("note") + struct.pack(">q", 1_700_000_000_000)
    assert decode(key, value) == record


def test_an_offset_with_a_retention_of_its_own_is_written_in_version_1_which_has_a_field_for_it():
    record = OffsetRecord("g", PARTITION, CommittedOffset(42, -1, "", 1_000, expire_timestamp_ms=5_000))
    key, value = encode(record)
    assert value == struct.pack(">hq", 1, 42) + string("") + struct.pack(">qq", 1_000, 5_000)
    assert decode(key, value) == record


def test_an_offset_with_a_topic_id_is_written_in_the_flexible_version():
    record = OffsetRecord("g", PARTITION, CommittedOffset(42, 7, "note", 1_000, topic_id=TOPIC_ID))
    key, value = encode(record)
    tagged = b"\x01" + b"\x00" + bytes([len(TOPIC_ID.bytes)]) + TOPIC_ID.bytes
    assert value == struct.pack(">hqi", 4, 42, 7) + b"\x05note" + struct.pack(">q", 1_000) + tagged
    assert decode(key, value) == record


def test_a_tombstone_is_a_key_alone():
    assert encode(OffsetRecord("g", PARTITION, None)) == (offset_key("g"), None)
    assert decode(offset_key("g"), None) == OffsetRecord("g", PARTITION, None)
    assert encode(GroupRecord("g", None)) == (struct.pack(">h", 2) + string("g"), None)
    assert decode(struct.pack(">h", 2) + string("g"), None) == GroupRecord("g", None)


def test_a_group_is_written_as_kafka_writes_it():
    member = MemberSnapshot("m-1", "i-1", "client", "/10.0.0.1", 60_000, 10_000, b"sub", b"work")
    record = GroupRecord("g", GroupSnapshot("consumer", 5, "range", "m-1", 1_700_000_000_000, (member,)))
    key, value = encode(record)
    assert key == struct.pack(">h", 2) + string("g")
    assert value == (
        struct.pack(">h", 3)
        + string("consumer")
        + struct.pack(">i", 5)
        + string("range")
        + string("m-1")
        + struct.pack(">q", 1_700_000_000_000)
        + struct.pack(">i", 1)
        + string("m-1")
        + string("i-1")
        + string("client")
        + string("/10.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + data(b"sub")
        + data(b"work")
    )
    assert decode(key, value) == record


def test_an_empty_group_has_no_protocol_and_no_leader():
    record = GroupRecord("g", GroupSnapshot("consumer", 6, None, None, 1_000, ()))
    key, value = encode(record)
    assert value == struct.pack(">h", 3) + string("consumer") + struct.pack(">ihhqi", 6, -1, -1, 1_000, 0)
    assert decode(key, value) == record


def test_offsets_of_brokers_before_0_10_are_read():
    key = struct.pack(">h", 0) + offset_key("g")[2:]
    value = struct.pack(">hq", 0, 42) + string("note") + struct.pack(">q", 1_000)
    assert decode(key, value) == OffsetRecord("g", PARTITION, CommittedOffset(42, -1, "note", 1_000))


def test_members_of_brokers_before_0_10_1_have_one_time_out_for_both():
    key = struct.pack(">h", 2) + string("g")
    value = (
        struct.pack(">h", 0)
        + string("consumer")
        + struct.pack(">i", 1)
        + string("range")
        + string("m")
        + struct.pack(">i", 1)
        + string("m")
        + string("c")
        + string("/h")
        + struct.pack(">i", 30_000)
        + data(b"")
        + data(b"")
    )
    record = decode(key, value)
    assert record.snapshot.members[0].rebalance_timeout_ms == 30_000
    assert record.snapshot.members[0].instance_id is None
    assert record.snapshot.state_since_ms == -1


@pytest.mark.parametrize("kind", [9, 18, 99])
def test_records_of_other_group_protocols_are_not_known(kind: int):
    assert decode(struct.pack(">h", kind) + string("g"), b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (offset_key("g")[:-1], None),
        (offset_key("g"), b"\0\3"),
        (offset_key("g"), b"\0\x09"),
    ],
)
def test_what_is_not_what_its_type_says_is_refused(key: bytes, value: bytes | None):
    with pytest.raises(InvalidInputError):
        decode(key, value)


texts = st.text(max_size=12)
members = st.builds(
    MemberSnapshot,
    texts,
    st.none() | texts,
    texts,
    texts,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=8),
    st.binary(max_size=8),
)
snapshots = st.builds(
    GroupSnapshot,
    texts,
    st.integers(0, 2**31 - 1),
    st.none() | texts,
    st.none() | texts,
    st.integers(-1, 2**62),
    st.lists(members, max_size=3).map(tuple),
)


@given(texts, snapshots)
def test_a_group_is_read_as_it_was_written(group_id: str, snapshot: GroupSnapshot):
    record = GroupRecord(group_id, snapshot)
    assert decode(*encode(record)) == record


def test_a_part_of_a_consumer_group_is_written_as_kafka_writes_it():
    key = ConsumerGroupMetadataKey(group_id="g")
    record = KeyedRecord(key, ConsumerGroupMetadataValue(epoch=3, metadata_hash=5))
    assert encode(record) == (
        struct.pack(">h", 3) + string("g"),
        struct.pack(">hi", 0, 3) + b"\x01\x00\x08" + struct.pack(">q", 5),
    )
    assert decode(*encode(record)) == record
    assert decode(*encode(KeyedRecord(key, None))) == KeyedRecord(key, None)


@pytest.mark.parametrize("kind", [3, 4, 5, 6, 7, 8, 16])
def test_each_part_of_a_consumer_group_is_known_by_its_type(kind: int):
    key = struct.pack(">h", kind) + string("g") + (string("m") if kind in (5, 7, 8, 16) else b"")
    record = decode(key, None)
    assert isinstance(record, KeyedRecord)
    assert (record.key.RECORD_TYPE, kind_of(record)) == (kind, GroupType.CONSUMER)
