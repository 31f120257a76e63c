"""What one step makes of a consumer group: a working copy that writes down, record by record, what becomes of it.

The group itself changes when the records are replayed. A step that is refused half-way is forgotten with its outcome.
"""

import hashlib
import logging
from collections.abc import Iterable, Set
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ottla.groups.consumer import records
from ottla.groups.consumer.assignor import Assigning, Subscriber
from ottla.groups.consumer.assignors import ASSIGNORS
from ottla.groups.consumer.consumer_group import INITIAL_EPOCH, ConsumerGroup, MatchedTopics, subscribed_topics
from ottla.groups.consumer.member import ConsumerMember, MemberState, Partitions
from ottla.groups.consumer.reconciliation import Owned, reconcile
from ottla.groups.consumer_config import ASSIGNMENT_PARTITIONS_MAX, GroupTimes
from ottla.groups.group_kind import GroupContext
from ottla.groups.records import KeyedRecord
from ottla.groups.step import (
    AssignmentTimer,
    ClassicJoinTimer,
    ClassicSyncTimer,
    RebalanceTimer,
    SessionTimer,
    Step,
)
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

logger = logging.getLogger(__name__)

SLICES_AT_ONCE: Final = 4
"""So many slices of an assignment are done in the step that asks for it; the rest a slice in a turn of the loop."""

SLICE_INTERVAL_MS: Final = 1
"""From one slice to the next: what came meanwhile goes first."""


class AssignmentRun:
    """An assignment that is being computed, for the group as it was in an epoch."""

    __slots__ = ("assigning", "epoch")

    def __init__(self, epoch: int, assigning: Assigning) -> None:
        self.epoch = epoch
        self.assigning = assigning


class GroupUpdate:
    """One step's view of a group, with the changes so far; they are in `step.outcome.records` too."""

    __slots__ = (
        "_context",
        "_owns_members",
        "_owns_target",
        "epoch",
        "group",
        "image",
        "matched",
        "members",
        "step",
        "target",
        "target_epoch",
    )

    def __init__(self, context: GroupContext, step: Step, group: ConsumerGroup) -> None:
        self._context = context
        self.step = step
        self.group = group
        self.image: MetadataImage = context.image()
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.members = group.members
        self.target = group.target
        self.matched = group.matched
        self._owns_members = False
        self._owns_target = False

    def write(self, record: KeyedRecord) -> None:
        """Have a record written."""
        self.step.outcome.write(record)

    @property
    def times(self) -> GroupTimes:
        """The settings of the group as they are now."""
        if self.group.times is None or self.group.image is not self.image:
            self.group.times = self._context.config.consumer.times(self.group.group_id)
        return self.group.times

    # Members

    def put(self, member: ConsumerMember) -> None:
        """A member is there, or asks for something else."""
        self._members()[member.member_id] = member
        self.write(records.member(self.group.group_id, member.member_id, member.metadata))

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        group_id = self.group.group_id
        self._members().pop(member_id, None)
        if not self._owns_target:
            self.target, self._owns_target = dict(self.target), True
        self.target.pop(member_id, None)
        self.write(records.current_assignment(group_id, member_id, None))
        self.write(records.target_member(group_id, member_id, None))
        self.write(records.member(group_id, member_id, None))

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Another client has the instance id of a member: it takes its place and work, in epoch 0, under its own id."""
        successor = ConsumerMember(member_id, old.metadata, replace(old.current, epoch=0, previous_epoch=0))
        target = self.group.target_of(old.member_id)
        self.remove(old.member_id)
        self.put(successor)
        self.target[member_id] = target
        self.write(records.target_member(self.group.group_id, member_id, target))
        self.write(records.current_assignment(self.group.group_id, member_id, successor.current))
        self.cancel_timers(old.member_id)
        return successor

    def set_match(self, regex: str, matched: MatchedTopics | None) -> None:
        """Topics match an expression; None when nobody has it any longer."""
        self.matched = dict(self.matched)
        if matched is None:
            del self.matched[regex]
            self.write(records.regular_expression(self.group.group_id, regex, None))
        else:
            self.matched[regex] = matched
            self.write(
                records.regular_expression(
                    self.group.group_id, regex, matched.topics, matched.version, matched.timestamp_ms
                )
            )

    def _members(self) -> dict[str, ConsumerMember]:
        if not self._owns_members:
            self.members, self._owns_members = dict(self.members), True
        return self.members

    # Timers

    def begin_session(self, member: ConsumerMember) -> None:
        """The member was heard of: its session starts anew."""
        classic = member.metadata.classic_member_metadata
        timeout_ms = self.times.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.step.outcome.set_timer(SessionTimer(self.group.group_id, member.member_id), timeout_ms)

    def cancel_timers(self, member_id: str) -> None:
        """The member is gone."""
        for timer in (SessionTimer, RebalanceTimer, ClassicJoinTimer, ClassicSyncTimer):
            self.step.outcome.cancel_timer(timer(self.group.group_id, member_id))

    # Epochs

    def settle_epoch(self, *, must_grow: bool) -> None:
        """Begin a new epoch when something asks for it: what was said, or topics that are not what they were."""
        if not must_grow and self.group.image is self.image:
            return
        group_id = self.group.group_id
        metadata_hash = hash_of_topics(self._topic_names(), self.image)
        if must_grow or metadata_hash != self.group.metadata_hash:
            self.epoch += 1
            self.write(records.group(group_id, self.epoch, metadata_hash))
            logger.info("group %s: epoch %d with %d members", group_id, self.epoch, len(self.members))
        if self.group.has_partition_metadata:
            self.write(records.no_partition_metadata(group_id))

    def _topic_names(self) -> frozenset[str]:
        return frozenset().union(*subscribed_topics(self.members.values(), self.matched).values())

    # The target

    def assign_if_due(self) -> None:
        """Compute a new target when it is older than the group, as often as the settings allow."""
        if self.epoch <= self.target_epoch or AssignmentRun in self.group.pending:
            return
        if self.target_epoch > INITIAL_EPOCH:
            wait_ms = self.group.assigned_at_ms + self.times.assignment_interval_ms - self.step.now_ms
            if 0 < wait_ms <= self.times.assignment_interval_ms:
                self.step.outcome.set_timer(AssignmentTimer(self.group.group_id), wait_ms)
                return
        self.go_on_assigning(self._begin_assigning(), SLICES_AT_ONCE)

    def go_on_assigning(self, run: AssignmentRun, slices: int) -> None:
        """Do some slices of an assignment; when it is complete it is the target.

        Raises ApiError UNKNOWN_SERVER_ERROR when what a member is to have does not fit a record.
        """
        self.group.pending.pop(AssignmentRun, None)
        for _ in range(slices):
            try:
                next(run.assigning)
            except StopIteration as end:
                self._set_target(run.epoch, end.value)
                return
        self.group.pending[AssignmentRun] = run
        self.step.outcome.set_timer(AssignmentTimer(self.group.group_id), SLICE_INTERVAL_MS)

    def _begin_assigning(self) -> AssignmentRun:
        ids_of: dict[tuple[int, str | None], frozenset[UUID]] = {}
        counts: dict[UUID, int] = {}
        for key, names in subscribed_topics(self.members.values(), self.matched).items():
            topics = [topic for name in names if (topic := self.image.topic(name)) is not None]
            ids_of[key] = frozenset(topic.topic_id for topic in topics)
            counts.update((topic.topic_id, len(topic.partitions)) for topic in topics)
        subscribers = {
            member.member_id: Subscriber(
                topic_ids=ids_of[id(member.metadata.subscribed_topic_names), member.regex],
                target=self.target.get(member.member_id, {}),
                instance_id=member.instance_id,
            )
            for member in self.members.values()
        }
        return AssignmentRun(self.epoch, ASSIGNORS[self.assignor_name](subscribers, counts))

    @property
    def assignor_name(self) -> str:
        """The assignor that most members ask for; the broker's first when none asks."""
        votes: dict[str, int] = {}
        allowed = self._context.config.consumer.assignors
        for member in self.members.values():
            name = member.metadata.server_assignor
            if name in allowed:
                votes[name] = votes.get(name, 0) + 1
        return max(sorted(votes), key=votes.__getitem__) if votes else allowed[0]

    def _set_target(self, epoch: int, assignment: dict[str, Partitions]) -> None:
        group_id = self.group.group_id
        largest = max((sum(map(len, of.values())) for of in assignment.values()), default=0)
        if largest > ASSIGNMENT_PARTITIONS_MAX:
            message = f"A member would get {largest} partitions, more than the {ASSIGNMENT_PARTITIONS_MAX} it may have."
            logger.error("group %s: could not compute an assignment: %s", group_id, message)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        target = {}
        for member_id in self.members:
            partitions = assignment.get(member_id)
            before = self.target.get(member_id)
            if partitions is None:
                # It came while the assignment was computed; the next one is for it too.
                target[member_id] = before if before is not None else {}
                continue
            target[member_id] = partitions
            if before is None or before != partitions:
                self.write(records.target_member(group_id, member_id, partitions))
        self.target, self._owns_target = target, True
        self.target_epoch = epoch
        self.write(records.target_metadata(group_id, epoch, self.step.now_ms))
        if self.epoch > epoch:
            self.step.outcome.set_timer(AssignmentTimer(group_id), max(self.times.assignment_interval_ms, 1))

    # What members have

    def reconcile(self, member: ConsumerMember, owned: Owned | None, *, asks_anew: bool) -> ConsumerMember:
        """Bring a member as far towards its target as it may go now; `asks_anew` says that it may have asked for other
        topics in this step. Raises ApiError FENCED_MEMBER_EPOCH.
        """
        names: Set[str] = set()

        def is_subscribed(topic_id: UUID) -> bool:
            nonlocal names
            names = names or self._names_of(member)
            topic = self.image.topic_by_id(topic_id)
            return topic is not None and topic.name in names

        current = reconcile(
            member.current,
            self.target_epoch,
            self.target.get(member.member_id, {}),
            owned,
            is_subscribed=is_subscribed,
            is_taken=self.group.is_taken,
            asks_anew=asks_anew,
        )
        if current is member.current:
            return member
        member = ConsumerMember(member.member_id, member.metadata, current)
        self._members()[member.member_id] = member
        self.write(records.current_assignment(self.group.group_id, member.member_id, current))
        if not member.is_classic:
            timer = RebalanceTimer(self.group.group_id, member.member_id)
            if current.state is MemberState.UNREVOKED_PARTITIONS:
                self.step.outcome.set_timer(timer, max(member.metadata.rebalance_timeout_ms, 0))
            else:
                self.step.outcome.cancel_timer(timer)
        return member

    def _names_of(self, member: ConsumerMember) -> frozenset[str]:
        matched = self.matched.get(member.regex or "")
        names = frozenset(member.metadata.subscribed_topic_names)
        return names if matched is None else names | matched.topics

    def finish(self) -> None:
        """The step is not refused any more: remember which metadata the group was compared with."""
        self.group.image = self.image


def hash_of_topics(names: Iterable[str], image: MetadataImage) -> int:
    """A number that changes when one of these topics comes, goes, is made anew or gets more partitions; 0 for none.

    8 bytes of BLAKE2b over the topics by name, each with its id and its partition count. (Apache Kafka has another
    hash in the same place: a group that changes hands begins a new epoch, with the same assignment.)
    """
    topics = [topic for name in sorted(names) if (topic := image.topic(name)) is not None]
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic in topics:
        digest.update(topic.name.encode() + b"\0" + topic.topic_id.bytes + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
