"""The delivery state of one share partition, as the share coordinator keeps it (KIP-932).

A snapshot holds all of it, an update what was written since. A snapshot that is too large for one record is followed by
updates of the same snapshot epoch:

    snapshot 4 | update 4 | update 4 || snapshot 5 (first part) | update 5 (rest) | update 5 | ...
"""

from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from ottla.metadata.records import topic_id_text
from ottla.protocol.coordinator_record import decode_key, decode_value, encode_key, encode_value, record_type
from ottla.protocol.coordinator_records import share_state as formats
from ottla.queues.state_batches import StateBatch, combine

UNKNOWN_OFFSET: Final = -1
"""The start offset of state that was never set: the group begins by its `share.auto.offset.reset`."""

BATCHES_PER_RECORD_MAX: Final = 10_000
"""State batches of one record: 19 bytes each, so a record has at most some 200 KB."""


class ShareKey(NamedTuple):
    """A share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """How clients name it to FindCoordinator, and what decides the partition of `__share_group_state`."""
        return f"{self.group_id}:{topic_id_text(self.topic_id)}:{self.partition}"


class ShareState(Struct, frozen=True):
    """The state of a share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN_OFFSET
    complete_count: int = -1
    """Records from the start offset on that are done, as the leader counted them; -1 when it did not say."""
    created_ms: int = 0
    written_ms: int = 0
    batches: tuple[StateBatch, ...] = ()


class SnapshotRecord(NamedTuple):
    """All of the state, or its first part; None when it was deleted."""

    key: ShareKey
    state: ShareState | None


class UpdateRecord(NamedTuple):
    """What was written over a snapshot."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


ShareStateRecord = SnapshotRecord | UpdateRecord


def with_update(state: ShareState, update: UpdateRecord) -> ShareState:
    """The state after an update. Start offset and leader epoch of -1 are as before."""
    start_offset = state.start_offset if update.start_offset < 0 else update.start_offset
    return ShareState(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch if update.leader_epoch < 0 else update.leader_epoch,
        start_offset=start_offset,
        complete_count=update.complete_count,
        created_ms=state.created_ms,
        written_ms=state.written_ms,
        batches=combine(state.batches, update.batches, start_offset),
    )


def snapshot_records(key: ShareKey, state: ShareState) -> list[ShareStateRecord]:
    """The records of a snapshot, in parts that each fit a record."""
    first, rest = state.batches[:BATCHES_PER_RECORD_MAX], state.batches[BATCHES_PER_RECORD_MAX:]
    head = ShareState(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.complete_count,
        state.created_ms,
        state.written_ms,
        first,
    )
    records: list[ShareStateRecord] = [SnapshotRecord(key, head)]
    for at in range(0, len(rest), BATCHES_PER_RECORD_MAX):
        part = rest[at : at + BATCHES_PER_RECORD_MAX]
        records.append(
            UpdateRecord(key, state.snapshot_epoch, state.leader_epoch, state.start_offset, state.complete_count, part)
        )
    return records


def encode(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
    """The key and value of a record, in Kafka's format."""
    group_id, topic_id, partition = record.key
    if isinstance(record, UpdateRecord):
        key = encode_key(formats.ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition))
        update = formats.ShareUpdateValue(
            snapshot_epoch=record.snapshot_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.complete_count,
            state_batches=tuple(formats.StateBatch(*batch) for batch in record.batches),
        )
        return key, encode_value(update, 0)
    key = encode_key(formats.ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition))
    state = record.state
    if state is None:
        return key, None
    snapshot = formats.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=tuple(formats.StateBatch(*batch) for batch in state.batches),
    )
    return key, encode_value(snapshot, 0)


def decode(key: bytes, value: bytes | None) -> ShareStateRecord | None:
    """The record, or None for a kind that is not known. Raises MessageError for bytes that are not what they say."""
    kind = record_type(key)
    if kind == formats.ShareSnapshotKey.RECORD_TYPE:
        snapshot_key = decode_key(formats.ShareSnapshotKey, key)
        place = ShareKey(snapshot_key.group_id, snapshot_key.topic_id, snapshot_key.partition)
        if value is None:
            return SnapshotRecord(place, None)
        snapshot = decode_value(formats.ShareSnapshotValue, value)
        state = ShareState(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            snapshot.create_timestamp,
            snapshot.write_timestamp,
            _batches(snapshot.state_batches),
        )
        return SnapshotRecord(place, state)
    if kind == formats.ShareUpdateKey.RECORD_TYPE and value is not None:
        update_key = decode_key(formats.ShareUpdateKey, key)
        place = ShareKey(update_key.group_id, update_key.topic_id, update_key.partition)
        update = decode_value(formats.ShareUpdateValue, value)
        return UpdateRecord(
            place,
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _batches(update.state_batches),
        )
    return None


def _batches(stored: tuple[formats.StateBatch, ...]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count, each.not_before)
        for each in stored
    )
