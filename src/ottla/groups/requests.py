"""What members and administrators ask of a group, whichever gateway they came by."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msgspec import Struct

from ottla.groups.members import MemberProtocol
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition

UNKNOWN_GENERATION = -1
"""The generation of those who are no members: administrators, and consumers that assign partitions themselves."""


def _everything(topic: str) -> bool:
    return True


class Join(Struct, frozen=True):
    """Become a member, or take part in the next generation.

    `member_id` is empty for a client that has none; `new_member_id` is the one it gets if it is to have one.
    `must_rejoin_with_id` is KIP-394: a dynamic member gets its id first and joins with it afterwards, so that a client
    which goes away in between leaves no member behind. `may_skip_assignment` is KIP-814: a returning static leader
    can be told that the assignment stands.
    """

    group_id: str
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    must_rejoin_with_id: bool = True
    may_skip_assignment: bool = True
    reason: str = "not provided"


class Sync(Struct, frozen=True):
    """Fetch the assignment of a generation; the leader brings the assignments of all, by member id."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Heartbeat(Struct, frozen=True):
    """Say that a member is there, and hear whether a rebalance is going on."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


class LeavingMember(Struct, frozen=True):
    """A member that leaves; an administrator names a static member by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str = "not provided"


class Leave(Struct, frozen=True):
    """Take members out of a group."""

    group_id: str
    members: tuple[LeavingMember, ...]


class ConsumerHeartbeat(Struct, frozen=True):
    """Join a consumer group, say what one has, hear what one is to have, or leave (ConsumerGroupHeartbeat, KIP-848).

    `member_epoch` is `member_epoch.JOIN_GROUP`, one of the two that leave, or how far the member has come. What is None
    did not change since the last request; `rebalance_timeout_ms` is then -1. `new_member_id` is the id for a client of
    version 0, which has none of its own. `topic_names` is sorted and names nothing twice. `may_describe` tells whether
    the client may know of a topic: others do not match its `topic_regex`.
    """

    group_id: str
    member_id: str
    member_epoch: int
    new_member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: tuple[tuple[UUID, tuple[int, ...]], ...] | None = None
    must_bring_id: bool = True
    may_describe: Callable[[str], bool] = _everything


class OffsetToCommit(Struct, frozen=True):
    """Where a consumer wants to go on in one partition; `leader_epoch` is -1 when it does not know it."""

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TopicOffsetsToCommit(Struct, frozen=True):
    """Where a consumer wants to go on in one topic, which had this name and this id when the request was read."""

    topic: str
    topic_id: UUID
    offsets: tuple[OffsetToCommit, ...]


class Committer(Struct, frozen=True):
    """For which group somebody commits, and as which of its members, if as one.

    `generation_id` is the member epoch in a consumer group. `retention_ms`, when given, replaces the broker's retention
    for the offsets. `knows_group_id_not_found` is false for clients so old (OffsetCommit before version 9) that a group
    which does not exist must look like a wrong generation to them, and that cannot be members of a consumer group.
    `is_transactional` is TxnOffsetCommit.
    """

    group_id: str
    generation_id: int = UNKNOWN_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int | None = None
    knows_group_id_not_found: bool = True
    is_transactional: bool = False


class CommitOffsets(Struct, frozen=True):
    """Store offsets of a group; with a `producer` as part of its transaction, when it is committed.

    `guard` says that the producer's transaction is open in the group's partition (`TransactionalRecord`).
    """

    committer: Committer
    topics: tuple[TopicOffsetsToCommit, ...]
    producer: ProducerIdentity | None = None
    guard: Any = None


class FetchOffsets(Struct, frozen=True):
    """Read offsets of a group: of the partitions named, or of all it has.

    A member of a consumer group says which one it is and in which epoch; others have no id, and an epoch of -1.
    `require_stable` asks not to be told of an offset that a transaction which is going on may change (KIP-447).
    """

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class DeleteOffsets(Struct, frozen=True):
    """Remove offsets of a group for topics that it is not subscribed to."""

    group_id: str
    partitions: tuple[TopicPartition, ...]
