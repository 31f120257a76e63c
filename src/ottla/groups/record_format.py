"""The bytes of a group coordinator's records, as Apache Kafka writes and reads them.

    record          key type   value version
    OffsetRecord    1          4, with the id of the topic (KIP-848); 1 when the client set a retention; 3 is read
    GroupRecord     2          3
    KeyedRecord     3 to 8,    0, consumer groups (KIP-848)
                    16
                    10 to 15   0, share groups (KIP-932)
                    17,        0, streams groups (KIP-1071)
                    19 to 23

A tombstone has the key alone. Keys of type 0 are offsets that brokers before 0.10 wrote; they are read.
"""

from functools import cache, lru_cache
from importlib import import_module
from typing import Final
from uuid import UUID

from ottla.groups.group import GroupType
from ottla.groups.records import (
    CommittedOffset,
    GroupRecord,
    GroupSnapshot,
    KeyedRecord,
    MemberSnapshot,
    OffsetRecord,
    Record,
)
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.coordinator_record import decode_key, decode_value, encode_key, encode_value, record_type
from ottla.protocol.coordinator_records.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.message import ZERO_UUID, CoordinatorKey, CoordinatorValue

TOPIC_IDS_SHARED_MAX = 4_096
"""Of how many topics the ids are shared while offsets are loaded; beyond, they take 90 bytes an offset."""

_LEGACY_OFFSET_TYPE = 0
_GROUP_VALUE_VERSION = 3
_KEYED_VALUE_VERSION = 0

_KEYED_MODULES: Final = {
    GroupType.CONSUMER: "consumer_group",
    GroupType.STREAMS: "streams_group",
    GroupType.SHARE: "share_group",
}
"""Where the records of each kind of group are; read when the first group of the kind comes."""

_KEYED_TYPES: Final = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), GroupType.STREAMS),
}
"""To which kind of group a record type belongs."""


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and value of a record; the value is None for a tombstone."""
    if isinstance(record, KeyedRecord):
        value = None if record.value is None else encode_value(record.value, _KEYED_VALUE_VERSION)
        return encode_key(record.key), value
    if isinstance(record, OffsetRecord):
        topic, partition = record.partition
        key = encode_key(OffsetCommitKey(group=record.group_id, topic=topic, partition=partition))
        return key, None if record.committed is None else _encode_offset(record.committed)
    key = encode_key(GroupMetadataKey(group=record.group_id))
    return key, None if record.snapshot is None else _encode_group(record.snapshot)


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None for a kind that is not known (of another group protocol, or of a newer broker).

    Raises MessageError when the bytes are not what their type says.
    """
    kind = record_type(key)
    if kind in (_LEGACY_OFFSET_TYPE, OffsetCommitKey.RECORD_TYPE):
        offset_key = decode_key(OffsetCommitKey, key)
        partition = TopicPartition(offset_key.topic, offset_key.partition)
        return OffsetRecord(offset_key.group, partition, None if value is None else _decode_offset(value))
    if kind == GroupMetadataKey.RECORD_TYPE:
        group_key = decode_key(GroupMetadataKey, key)
        return GroupRecord(group_key.group, None if value is None else _decode_group(value))
    if kind in _KEYED_TYPES:
        key_class, value_class = _keyed_classes(_KEYED_TYPES[kind])[kind]
        return KeyedRecord(decode_key(key_class, key), None if value is None else decode_value(value_class, value))
    return None


def kind_of(record: KeyedRecord) -> GroupType:
    """The kind of group that a record belongs to."""
    return _KEYED_TYPES[record.key.RECORD_TYPE]


@cache
def _keyed_classes(group_type: GroupType) -> dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]]:
    """The classes of keys and values of a kind, by record type."""
    module = import_module(f"ottla.protocol.coordinator_records.{_KEYED_MODULES[group_type]}")
    found = [each for each in vars(module).values() if isinstance(each, type)]
    values = {
        each.RECORD_TYPE: each for each in found if issubclass(each, CoordinatorValue) and each is not CoordinatorValue
    }
    return {
        each.RECORD_TYPE: (each, values[each.RECORD_TYPE])
        for each in found
        if issubclass(each, CoordinatorKey) and each is not CoordinatorKey
    }


def _encode_offset(committed: CommittedOffset) -> bytes:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=-1 if committed.expire_timestamp_ms is None else committed.expire_timestamp_ms,
        topic_id=committed.topic_id or ZERO_UUID,
    )
    return encode_value(value, _offset_value_version(committed))


def _offset_value_version(committed: CommittedOffset) -> int:
    if committed.expire_timestamp_ms is not None:
        return 1
    return 3 if committed.topic_id is None else 4


def _decode_offset(data: bytes) -> CommittedOffset:
    value = decode_value(OffsetCommitValue, data)
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp < 0 else value.expire_timestamp,
        topic_id=None if value.topic_id == ZERO_UUID else _shared(value.topic_id),
    )


@lru_cache(maxsize=TOPIC_IDS_SHARED_MAX)
def _shared(topic_id: UUID) -> UUID:
    """The same object for the same id: a shard of a million offsets has them in a few topics."""
    return topic_id


def _encode_group(snapshot: GroupSnapshot) -> bytes:
    value = GroupMetadataValue(
        protocol_type=snapshot.protocol_type,
        generation=snapshot.generation_id,
        protocol=snapshot.protocol_name,
        leader=snapshot.leader_id,
        current_state_timestamp=snapshot.state_since_ms,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in snapshot.members
        ),
    )
    return encode_value(value, _GROUP_VALUE_VERSION)


def _decode_group(data: bytes) -> GroupSnapshot:
    value = decode_value(GroupMetadataValue, data)
    return GroupSnapshot(
        protocol_type=value.protocol_type,
        generation_id=value.generation,
        protocol_name=value.protocol,
        leader_id=value.leader,
        state_since_ms=value.current_state_timestamp,
        members=tuple(
            MemberSnapshot(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                # Version 0 had one time-out for both.
                rebalance_timeout_ms=(
                    member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
                ),
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ),
    )
