"""A group of any kind, as far as all kinds are alike."""

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from ottla.groups.records import CommittedOffset, Record
from ottla.groups.requests import CommitOffsets
from ottla.model.error_code import ErrorCode


class GroupType(Enum):
    """Which protocol the members of a group speak; the values are the names that clients see."""

    CLASSIC = "classic"
    """JoinGroup, SyncGroup, Heartbeat: a member of the group assigns."""
    CONSUMER = "consumer"
    """ConsumerGroupHeartbeat: the coordinator assigns partitions."""
    STREAMS = "streams"
    """StreamsGroupHeartbeat: the coordinator assigns tasks."""
    SHARE = "share"
    """ShareGroupHeartbeat: the coordinator assigns partitions, which members share record by record."""


class Group(Protocol):
    """What a shard asks of a group without knowing its kind. All groups of a shard share one name space."""

    @property
    def group_id(self) -> str:
        """Its name."""
        ...

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """What its members do, in their own word; None for a group that only stores offsets."""
        ...

    @property
    def state_name(self) -> str:
        """What it is doing, as clients see it."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members: it may be deleted, and become a group of another kind."""
        ...

    def check_commit(self, request: CommitOffsets) -> ErrorCode:
        """NONE when whoever asks may commit these offsets now."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """NONE when offsets may be told to this member; an id of None and an epoch below 0 is somebody else."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether it may be using offsets of the topic now, so that they must not go."""
        ...

    def unused_since_ms(self, topic: str, committed: CommittedOffset) -> int | None:
        """When the retention of an offset began; None while the group may be using it."""
        ...

    def tombstones(self) -> Iterator[Record]:
        """The records that remove the group, offsets aside; it is empty."""
        ...
