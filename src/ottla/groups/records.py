"""What a group coordinator writes to `__consumer_offsets`: an offset, a classic group, or a part of another group."""

from uuid import UUID

from msgspec import Struct

from ottla.model.topic_partition import TopicPartition
from ottla.protocol.message import CoordinatorKey, CoordinatorValue


class CommittedOffset(Struct, frozen=True):
    """An offset a group committed: the next record it wants.

    `leader_epoch` is that of the record before it, -1 when the client did not say. `metadata` is the client's own.
    `expire_timestamp_ms` is set only by clients of old versions that ask for a retention of their own. `topic_id` tells
    which topic it was committed to; None in what was read from a record that does not say.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: UUID | None = None


class OffsetRecord(Struct, frozen=True):
    """A group committed an offset, or lost it (None)."""

    group_id: str
    partition: TopicPartition
    committed: CommittedOffset | None


class MemberSnapshot(Struct, frozen=True):
    """A member of a generation, with its subscription for the chosen protocol and its assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(Struct, frozen=True):
    """A generation of a group. `state_since_ms` is when it entered its state, -1 when that is not known."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[MemberSnapshot, ...]


class GroupRecord(Struct, frozen=True):
    """A classic group reached a generation, or is gone (None)."""

    group_id: str
    snapshot: GroupSnapshot | None


class KeyedRecord(Struct, frozen=True):
    """A part of a group of another kind, in the words of the protocol: what is so from now on, or no longer (None)."""

    key: CoordinatorKey
    value: CoordinatorValue | None


Record = OffsetRecord | GroupRecord | KeyedRecord
