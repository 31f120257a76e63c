"""A member of a consumer group: what it asks for, and what it has (KIP-848).

A member moves from one epoch to the next in the state that its heartbeats and those of the others allow:

              the target takes nothing away                the target takes something away
      +-----------------------------------------+   +---------------------------------------+
      |                                         v   v                                       |
    +--------+    what it is to get is free   +-----------------------+   it has given up   +----------------------+
    | Stable | <----------------------------- | the next assignment,  | <------------------ | UnrevokedPartitions  |
    +--------+                                | computed at each of   |                     | stays in its epoch   |
         ^          +-----------------------+ | its heartbeats        | ------------------> +----------------------+
         |          | UnreleasedPartitions  | +-----------------------+
         |          | is in the new epoch,  | <------+  something it is to get is still another member's
         +--------- | waits for the rest    |
                    +-----------------------+
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from ottla.groups import member_epoch
from ottla.protocol.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Partitions: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by the id of their topic; no topic has none."""

AssignedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by the id of their topic, each with the epoch in which its member got it (KIP-1251)."""


class MemberState(IntEnum):
    """Where a member stands between two epochs; the numbers are those of the record."""

    STABLE = 0
    """It has what the target of its epoch gives it."""
    UNREVOKED_PARTITIONS = 1
    """It was told to give something up and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """Something it is to get is still with another member."""
    UNKNOWN = 127
    """A newer broker wrote a state that this one does not know: the member has to begin anew."""

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """The state of a record."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


class CurrentAssignment(Struct, frozen=True):
    """How far a member has come, and what it has: its current assignment in the log.

    `assigned` is what it may use; `pending_revocation` what it was told to give up, and may still be using.
    `previous_epoch` is where it stood before the last change: it is there still when that answer was lost.
    """

    epoch: int = member_epoch.JOIN_GROUP
    previous_epoch: int = member_epoch.JOIN_GROUP
    state: MemberState = MemberState.STABLE
    assigned: AssignedPartitions = {}
    pending_revocation: AssignedPartitions = {}

    def assigned_since(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which the member has had a partition without a break, or None when it has not."""
        for partitions in (self.assigned, self.pending_revocation):
            since = partitions.get(topic_id, _NO_EPOCHS).get(partition)
            if since is not None:
                return since
        return None

    def in_use(self) -> Partitions:
        """What the member may be using: what it has, and what it has not said to have given up."""
        topic_ids = self.assigned.keys() | self.pending_revocation.keys()
        return {
            topic_id: frozenset(self.assigned.get(topic_id, _NO_EPOCHS))
            | frozenset(self.pending_revocation.get(topic_id, _NO_EPOCHS))
            for topic_id in topic_ids
        }

    def to_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The value of the record."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_to_topics(self.assigned),
            partitions_pending_revocation=_to_topics(self.pending_revocation),
        )

    @classmethod
    def from_value(cls, value: ConsumerGroupCurrentMemberAssignmentValue) -> "CurrentAssignment":
        """The assignment of a record. Where it does not say since when, the member's epoch counts."""
        return cls(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_from_topics(value.assigned_partitions, value.member_epoch),
            pending_revocation=_from_topics(value.partitions_pending_revocation, value.member_epoch),
        )


_NO_EPOCHS: Mapping[int, int] = {}


class ConsumerMember(Struct, frozen=True):
    """A member: what it asks for is the value of its record, what it has is beside it."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    current: CurrentAssignment = CurrentAssignment()

    @property
    def instance_id(self) -> str | None:
        """Its `group.instance.id`, when it is static."""
        return self.metadata.instance_id

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def regex(self) -> str | None:
        """The expression it subscribes with, if it has one."""
        return self.metadata.subscribed_topic_regex or None


def to_topic_partitions(partitions: Partitions) -> tuple[TopicPartition, ...]:
    """Partitions as the record of a target has them, sorted: the same target is the same bytes."""
    return tuple(
        TopicPartition(topic_id, tuple(sorted(partitions[topic_id]))) for topic_id in sorted(partitions, key=_as_int)
    )


def from_topic_partitions(topics: Iterable[TopicPartition]) -> Partitions:
    """The partitions of a record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def _to_topics(partitions: AssignedPartitions) -> tuple[TopicPartitions, ...]:
    topics = []
    for topic_id in sorted(partitions, key=_as_int):
        epochs = sorted(partitions[topic_id].items())
        topics.append(
            TopicPartitions(topic_id, tuple(partition for partition, _ in epochs), tuple(since for _, since in epochs))
        )
    return tuple(topics)


def _from_topics(topics: Iterable[TopicPartitions], epoch: int) -> AssignedPartitions:
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs or (epoch,) * len(topic.partitions), strict=False)
        )
        for topic in topics
        if topic.partitions
    }


def _as_int(topic_id: UUID) -> int:
    return topic_id.int
