"""A consumer group: what its records say, and what can be read off them (KIP-848).

epoch          grows when a member comes, goes or asks for something else, and when a topic of the group changes
target_epoch   the epoch that `target`, what each member is to have in the end, was computed for
member epochs  how far each member is on its way there
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.groups.consumer import records
from ottla.groups.consumer.member import ConsumerMember, CurrentAssignment, MemberState, Partitions
from ottla.groups.consumer_config import GroupTimes
from ottla.groups.group import GroupType
from ottla.groups.records import CommittedOffset, KeyedRecord
from ottla.groups.requests import CommitOffsets
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)

PROTOCOL_TYPE: Final = "consumer"
"""What lists of groups show as the protocol type, as of classic groups of consumers."""

INITIAL_EPOCH: Final = 1
"""Of a new group, whose target is empty then: its first member begins epoch 2. A member that has to wait for its first
assignment is in this one, as 0 says that it joins. As in Kafka since 4.3 (KAFKA-20268)."""

NAME_BYTES: Final = 64
"""What a name takes besides its characters."""

_NOBODY: Final[Mapping[int, str]] = {}
_NOTHING: Final[Partitions] = {}


class ConsumerGroupState(Enum):
    """What a group is doing; it follows from its epochs. The values are the names clients see."""

    EMPTY = "Empty"
    """It has no members."""
    ASSIGNING = "Assigning"
    """The target is older than the group."""
    RECONCILING = "Reconciling"
    """Some member is not where the target wants it."""
    STABLE = "Stable"
    """Everybody is."""
    DEAD = "Dead"
    """It is gone. What clients are told of a group that does not exist."""


class MatchedTopics(Struct, frozen=True):
    """The topics that matched an expression, at a version of the metadata and a time."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


class ConsumerGroup:
    """One group. `replay_*` alone changes it; what is under "remembered" may be lost at any time.

    Satisfies `Group`.
    """

    __slots__ = (
        "_owners",
        "_static",
        "_topic_names",
        "assigned_at_ms",
        "awaited_joins",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "image",
        "matched",
        "members",
        "metadata_hash",
        "names_bytes",
        "pending",
        "target",
        "target_epoch",
        "times",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        """Of the topics the group is subscribed to, as they were when its epoch was last set."""
        self.has_partition_metadata = False
        """Whether the log has a record that brokers before 4.1 wrote, to be removed."""
        self.members: dict[str, ConsumerMember] = {}
        self.target_epoch = INITIAL_EPOCH
        self.assigned_at_ms = 0
        self.target: dict[str, Partitions] = {}
        """What each member is to have."""
        self.matched: dict[str, MatchedTopics] = {}
        """By expression."""
        self._static: dict[str, str] = {}
        self._owners: dict[UUID, dict[int, str]] = {}
        """Who has each partition, or has not yet given it up."""
        self._topic_names: dict[tuple[str, ...], tuple[tuple[str, ...], int]] = {}
        """Each subscription once, with how many members have it: members of a group have mostly the same."""
        self.names_bytes = 0
        """What these take."""
        # Remembered
        self.image: MetadataImage | None = None
        """The metadata that the epoch was last compared with."""
        self.times: GroupTimes | None = None
        """The settings at that metadata."""
        self.awaited_joins: set[str] = set()
        """Classic members that were asked to join again."""
        self.pending: dict[type, object] = {}
        """Work that takes more than one turn of the loop, by what it is."""

    # What the shard asks of any group

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        """What its members do."""
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """What it is doing, as clients see it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """What it is doing."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in self.members.values():
            if member.current.state is not MemberState.STABLE or member.current.epoch != self.target_epoch:
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def check_commit(self, request: CommitOffsets) -> ErrorCode:
        """Whether this client may commit now: a member, or anybody while there are none.

        A member whose epoch has moved on may commit for what it has had ever since the epoch it names (KIP-1251): its
        answer was on the way when it committed. The same holds for a classic member and its generation.
        """
        committer = request.committer
        epoch = committer.generation_id
        if epoch < 0 and (not self.members or (committer.is_transactional and not committer.member_id)):
            return ErrorCode.NONE
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not (member.is_classic or committer.is_transactional or committer.knows_group_id_not_found):
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.current.epoch:
            return ErrorCode.NONE
        stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
        if epoch > member.current.epoch or epoch <= 0:
            return stale
        for topic in request.topics:
            for offset in topic.offsets:
                since = member.current.assigned_since(topic.topic_id, offset.partition)
                if since is None or epoch < since:
                    return stale
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether offsets may be told: to a member in its epoch, and to who is none."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == member.current.epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by its name or by an expression that it matched."""
        return any(topic in names for names in self._topic_names) or any(
            topic in matched.topics for matched in self.matched.values()
        )

    def unused_since_ms(self, topic: str, committed: CommittedOffset) -> int | None:
        """When the retention of an offset began; None while the group may be using it."""
        return None if self.is_subscribed_to(topic) else committed.commit_timestamp_ms

    def tombstones(self) -> Iterator[KeyedRecord]:
        """The records that remove the group, members and all; in the order in which they can be replayed."""
        for member_id in self.members:
            yield records.current_assignment(self.group_id, member_id, None)
        for member_id in dict.fromkeys((*self.members, *self.target)):
            yield records.target_member(self.group_id, member_id, None)
        yield records.target_metadata(self.group_id, None)
        for member_id in self.members:
            yield records.member(self.group_id, member_id, None)
        for regex in self.matched:
            yield records.regular_expression(self.group_id, regex, None)
        if self.has_partition_metadata:
            yield records.no_partition_metadata(self.group_id)
        yield records.group(self.group_id, None)

    # What can be read off it

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member that has an instance id now."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        """What a member is to have."""
        return self.target.get(member_id, _NOTHING)

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has a partition, or has not yet given it up."""
        return self._owners.get(topic_id, _NOBODY).get(partition)

    def is_taken(self, topic_id: UUID, partition: int) -> bool:
        """Whether some member has a partition, or has not yet given it up."""
        return self.owner(topic_id, partition) is not None

    def shared_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The same names as some member has them, so that equal subscriptions are one object."""
        known = self._topic_names.get(names)
        return names if known is None else known[0]

    def knows_names(self, names: tuple[str, ...]) -> bool:
        """Whether some member has this subscription."""
        return names in self._topic_names

    @property
    def regexes_matched_at_ms(self) -> int:
        """When the expressions were last looked up."""
        return max((matched.timestamp_ms for matched in self.matched.values()), default=0)

    # Replay

    def replay_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue | None) -> None:
        """A member is there or asks for something else; or it is gone."""
        before = self.members.pop(member_id, None)
        if before is not None:
            self._release(before.metadata.subscribed_topic_names)
            if before.instance_id is not None and self._static.get(before.instance_id) == member_id:
                del self._static[before.instance_id]
        if metadata is None:
            if before is not None:
                self._disown(before)
            self.awaited_joins.discard(member_id)
            return
        current = CurrentAssignment() if before is None else before.current
        metadata = records.with_names(metadata, self._retain(metadata.subscribed_topic_names))
        self.members[member_id] = ConsumerMember(member_id, metadata, current)
        if metadata.instance_id is not None:
            self._static[metadata.instance_id] = member_id

    def replay_current_assignment(self, member_id: str, current: CurrentAssignment | None) -> None:
        """A member has come further; None when it is about to go."""
        member = self.members.get(member_id)
        if member is None and current is None:
            return
        if member is None:
            # Of a compacted log this may come first: what the member asks for was written anew since.
            self.replay_member(member_id, records.NOTHING_SAID)
            member = self.members[member_id]
        self._disown(member)
        member = ConsumerMember(member_id, member.metadata, current or CurrentAssignment())
        self.members[member_id] = member
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for topic_id, indexes in partitions.items():
                owners = self._owners.setdefault(topic_id, {})
                owners.update(dict.fromkeys(indexes, member_id))

    def replay_regular_expression(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """Topics match an expression; None when nobody has it any longer."""
        if value is None:
            self.matched.pop(regex, None)
        else:
            self.matched[regex] = MatchedTopics(frozenset(value.topics), value.version, value.timestamp)

    def _disown(self, member: ConsumerMember) -> None:
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for topic_id, indexes in partitions.items():
                owners = self._owners.get(topic_id)
                if owners is None:
                    continue
                for partition in indexes:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    del self._owners[topic_id]

    def _retain(self, names: tuple[str, ...]) -> tuple[str, ...]:
        shared, count = self._topic_names.get(names, (names, 0))
        self._topic_names[shared] = (shared, count + 1)
        if not count:
            self.names_bytes += bytes_of(shared)
        return shared

    def _release(self, names: tuple[str, ...]) -> None:
        shared, count = self._topic_names.get(names, (names, 1))
        if count > 1:
            self._topic_names[shared] = (shared, count - 1)
        elif self._topic_names.pop(names, None) is not None:
            self.names_bytes -= bytes_of(shared)


def bytes_of(names: tuple[str, ...]) -> int:
    """About what the names of a subscription take in memory."""
    return sum(map(len, names)) + NAME_BYTES * len(names)


def subscribed_topics(
    members: Iterable[ConsumerMember], matched: Mapping[str, MatchedTopics]
) -> Mapping[tuple[int, str | None], frozenset[str]]:
    """The topics of each distinct subscription, by the identity of its names and its expression."""
    found: dict[tuple[int, str | None], frozenset[str]] = {}
    for member in members:
        names = member.metadata.subscribed_topic_names
        key = (id(names), member.regex)
        if key not in found:
            by_regex = matched.get(member.regex or "")
            found[key] = frozenset(names) if by_regex is None else frozenset(names) | by_regex.topics
    return found
