"""A share group: the state that its records hold (KIP-932), changed by replay alone.

ShareGroupMetadata                    epoch: rises when the members or their topics change
ShareGroupMemberMetadata              what a member said of itself
ShareGroupTargetAssignmentMetadata    the epoch of the assignment
ShareGroupTargetAssignmentMember      what a member is to have
ShareGroupCurrentMemberAssignment     what a member has, and its own epoch
ShareGroupStatePartitionMetadata      the partitions whose delivery state exists
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ottla.groups.group import GroupType
from ottla.groups.records import CommittedOffset, KeyedRecord
from ottla.groups.requests import CommitOffsets
from ottla.groups.share import share_records as records
from ottla.groups.share.assignor import Place
from ottla.model.error_code import ErrorCode
from ottla.protocol.coordinator_records import share_group as formats

PROTOCOL_TYPE: Final = "share"
INITIAL_EPOCH: Final = 1
"""Of a new group, whose target is empty then: its first member begins epoch 2. A member that has to wait for its first
assignment is in this one, as 0 says that it joins. As in Kafka since 4.3 (KAFKA-20268)."""
LEFT_EPOCH: Final = -1
"""The epoch of a member of which only one of its records is known, while a group loads."""


class ShareMember(Struct, frozen=True):
    """One member, as its records hold it. A member that missed an answer comes with `previous_epoch` once more."""

    member_id: str
    metadata: formats.ShareGroupMemberMetadataValue = formats.ShareGroupMemberMetadataValue(rack_id=None)
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Place] = frozenset()


class ShareGroup:
    """One group."""

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "group_id",
        "initialized",
        "members",
        "metadata_hash",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, frozenset[Place]] = {}
        self.initialized: dict[UUID, tuple[str, frozenset[int]]] = {}
        """The partitions whose delivery state exists, by the id of their topic, with its name."""

    # What a shard asks of any group

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        """What its members do."""
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """What it is doing, as clients see it."""
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def check_commit(self, request: CommitOffsets) -> ErrorCode:
        """Share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in member.metadata.subscribed_topic_names for member in self.members.values())

    def unused_since_ms(self, topic: str, committed: CommittedOffset) -> int | None:
        """When the retention of an offset began: a group of another kind left it."""
        return committed.commit_timestamp_ms

    def tombstones(self) -> Iterator[KeyedRecord]:
        """The records that remove the group."""
        for member_id in tuple(self.members):
            yield from records.member_tombstones(self.group_id, member_id)
        yield from records.group_tombstones(self.group_id)

    def topic_names(self) -> set[str]:
        """All topics that members are subscribed to."""
        return {name for member in self.members.values() for name in member.metadata.subscribed_topic_names}

    # Replay

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record of this group. The tombstone of the group itself is for the shard, which drops the group."""
        _REPLAY[type(record.key)](self, record.key, record.value)

    def _replay_group(self, key: formats.ShareGroupMetadataKey, value: formats.ShareGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(
        self, key: formats.ShareGroupMemberMetadataKey, value: formats.ShareGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
        else:
            member = self.members.get(key.member_id) or ShareMember(key.member_id)
            self.members[key.member_id] = replace(member, metadata=value)

    def _replay_current(
        self,
        key: formats.ShareGroupCurrentMemberAssignmentKey,
        value: formats.ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self.members[key.member_id] = replace(
                member or ShareMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=records.places_of(value.assigned_partitions),
            )
        elif member is not None:
            self.members[key.member_id] = replace(
                member, epoch=LEFT_EPOCH, previous_epoch=LEFT_EPOCH, assigned=frozenset()
            )

    def _replay_target(
        self,
        key: formats.ShareGroupTargetAssignmentMemberKey,
        value: formats.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = records.places_of(value.topic_partitions)

    def _replay_target_epoch(
        self,
        key: formats.ShareGroupTargetAssignmentMetadataKey,
        value: formats.ShareGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = INITIAL_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_state(
        self,
        key: formats.ShareGroupStatePartitionMetadataKey,
        value: formats.ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        topics = () if value is None else value.initialized_topics
        self.initialized = {each.topic_id: (each.topic_name, frozenset(each.partitions)) for each in topics}


_REPLAY: Final[Mapping[type, Callable[[ShareGroup, Any, Any], None]]] = {
    formats.ShareGroupMetadataKey: ShareGroup._replay_group,
    formats.ShareGroupMemberMetadataKey: ShareGroup._replay_member,
    formats.ShareGroupTargetAssignmentMetadataKey: ShareGroup._replay_target_epoch,
    formats.ShareGroupTargetAssignmentMemberKey: ShareGroup._replay_target,
    formats.ShareGroupCurrentMemberAssignmentKey: ShareGroup._replay_current,
    formats.ShareGroupStatePartitionMetadataKey: ShareGroup._replay_state,
}
