"""The share groups of one shard: heartbeats, descriptions, timers, replay (KIP-932).

join or heartbeat -> epoch, when members or topics changed -> assignment of the partitions whose state exists
    -> the member takes it at once -> the answer, and the partitions whose state is to be made
"""

import logging
from collections.abc import Mapping
from typing import Final, cast
from uuid import UUID

from msgspec.structs import replace

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.consumer.group_update import hash_of_topics
from ottla.groups.group import Group
from ottla.groups.group_config import GROUP_ID_BYTES_MAX, GROUPS_PER_SHARD_MAX
from ottla.groups.group_kind import GroupContext
from ottla.groups.member_epoch import JOIN_GROUP, LEAVE_GROUP
from ottla.groups.records import KeyedRecord
from ottla.groups.share import share_records as records
from ottla.groups.share.assignor import Place, assign
from ottla.groups.share.exchange import (
    OffsetsPurpose,
    PartitionsInitialized,
    ShareDescribeAnswer,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareOffsets,
    ShareOffsetsAnswer,
    TopicPartitions,
)
from ottla.groups.share.share_config import MEMBER_ID_LENGTH_MAX, MEMBERS_MAX, ShareConfig
from ottla.groups.share.share_group import ShareGroup, ShareMember
from ottla.groups.step import AssignmentTimer, MemberTimer, SessionTimer, Step
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records import share_group as formats
from ottla.protocol.messages import share_group_describe as described
from ottla.protocol.messages import share_group_heartbeat as messages

logger = logging.getLogger(__name__)

ASSIGNOR: Final = "simple"
TOPICS_PER_MEMBER_MAX: Final = 10_000
"""Topics that one member may subscribe to: they are kept in memory and in its record."""


class ShareGroups:
    """The part of a shard that has the share groups; see `GroupKind`."""

    __slots__ = ("_context",)

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # Requests

    def handle_heartbeat(self, now_ms: int, said: ShareHeartbeat, waiter: Waiter) -> Outcome:
        """ShareGroupHeartbeat: a member joins, is there, or leaves. A refused heartbeat leaves nothing behind."""
        step = Step(now_ms, self._context.config)
        try:
            answer = self._heartbeat(step, said)
        except ApiError as error:
            step = Step(now_ms, self._context.config)
            answer = ShareHeartbeatAnswer(error.code, message=error.message)
        step.answer(waiter, answer)
        return step.outcome

    def handle_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """ShareGroupDescribe, of one group."""
        step = Step(now_ms, self._context.config)
        try:
            answer = ShareDescribeAnswer(group=_describe(self._find(group_id), self._context.image()))
        except ApiError as error:
            answer = ShareDescribeAnswer(error.code, message=error.message)
        step.answer(waiter, answer)
        return step.outcome

    def handle_initialized(self, now_ms: int, report: PartitionsInitialized, waiter: Waiter) -> Outcome:
        """The state of partitions exists: they take part in the next assignment. Answers with an Answer."""
        step = Step(now_ms, self._context.config)
        group = self._context.groups.get(report.group_id)
        if isinstance(group, ShareGroup):
            image = self._context.image()
            initialized = dict(group.initialized)
            for topic_id, partitions in report.partitions.items():
                topic = image.topic_by_id(topic_id)
                if topic is not None:
                    _, before = initialized.get(topic_id, ("", frozenset()))
                    initialized[topic_id] = topic.name, before | frozenset(partitions)
            kept = {topic_id: each for topic_id, each in initialized.items() if image.topic_by_id(topic_id) is not None}
            if kept != group.initialized:
                step.outcome.write(records.state_record(group.group_id, kept))
                if group.members:
                    step.outcome.write(records.group_record(group.group_id, group.epoch + 1, group.metadata_hash))
        step.answer(waiter, Answer())
        return step.outcome

    def handle_offsets(self, now_ms: int, request: ShareOffsets, waiter: Waiter) -> Outcome:
        """Describe, Alter and DeleteShareGroupOffsets: which partitions have state, in a group that may be changed."""
        step = Step(now_ms, self._context.config)
        try:
            answer = self._offsets(step, request)
        except ApiError as error:
            step = Step(now_ms, self._context.config)
            answer = ShareOffsetsAnswer(error.code, message=error.message)
        step.answer(waiter, answer)
        return step.outcome

    def refusal(self, code: ErrorCode, message: str) -> ShareHeartbeatAnswer:
        """The answer to a heartbeat that is refused."""
        return ShareHeartbeatAnswer(code, message=message)

    def _offsets(self, step: Step, request: ShareOffsets) -> ShareOffsetsAnswer:
        if request.purpose is OffsetsPurpose.DESCRIBE:
            known = self._context.groups.get(request.group_id)
            if not isinstance(known, ShareGroup):
                return ShareOffsetsAnswer()  # as in Kafka: it has no state anywhere
            group = known
        elif request.purpose in (OffsetsPurpose.ALTER, OffsetsPurpose.BEGIN) and request.topics:
            # A group can be given its start before its first member joins.
            group = self._find_or_new(step, request.group_id)
        else:
            group = self._find(request.group_id)
        is_change = request.purpose in (OffsetsPurpose.ALTER, OffsetsPurpose.DELETE)
        if is_change and group.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        asked = request.topics
        found: TopicPartitions = {}
        for topic_id, (_, partitions) in group.initialized.items():
            if asked is None:
                found[topic_id] = tuple(sorted(partitions))
            elif topic_id in asked:
                of_topic = partitions if request.purpose is OffsetsPurpose.DELETE else set(asked[topic_id]) & partitions
                found[topic_id] = tuple(sorted(of_topic))
        epoch = group.epoch
        if is_change or (request.purpose is OffsetsPurpose.BEGIN and not group.members):
            epoch += 1
            step.outcome.write(records.group_record(group.group_id, epoch, group.metadata_hash))
        if request.purpose is OffsetsPurpose.DELETE and asked is not None:
            kept = {topic_id: each for topic_id, each in group.initialized.items() if topic_id not in asked}
            step.outcome.write(records.state_record(group.group_id, kept))
        return ShareOffsetsAnswer(partitions=found, epoch=epoch)

    def _heartbeat(self, step: Step, said: ShareHeartbeat) -> ShareHeartbeatAnswer:
        request = said.request
        _require_valid(request)
        joins = request.member_epoch == JOIN_GROUP
        if request.member_epoch == LEAVE_GROUP:
            return self._leave(step, self._find(request.group_id), request.member_id)
        if not joins and request.group_id not in self._context.groups:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        group = self._find_or_new(step, request.group_id) if joins else self._find(request.group_id)
        config = self._config(request.group_id)
        before = _member_of(group, request, config)
        member = replace(before, metadata=_metadata_of(before, said))
        image = self._context.image()
        members = {**group.members, member.member_id: member}
        epoch = self._epoch(step, group, members, before, member, image)
        wanted = _wanted(members, image)
        target_epoch, target = self._target(step, group, members, member.member_id, epoch, wanted, config)
        # What it no longer asks for it does not get, even before the next assignment.
        topics_of_member = {
            topic.topic_id for topic in map(image.topic, member.metadata.subscribed_topic_names) if topic
        }
        target = frozenset(place for place in target if place.topic_id in topics_of_member)
        if member.epoch != target_epoch or member.assigned != target:
            previous = member.epoch if member.epoch != target_epoch else member.previous_epoch
            member = replace(member, epoch=target_epoch, previous_epoch=previous, assigned=target)
            step.outcome.write(records.current_record(group.group_id, member.member_id, target_epoch, previous, target))
        step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), config.session_timeout_ms)
        assignment = None
        # A member whose answer was lost says its topics again: what that answer assigned to it, it does not know.
        is_full = request.subscribed_topic_names is not None
        if joins or is_full or member.assigned != before.assigned:
            topics = records.by_topic(member.assigned).items()
            assignment = messages.Assignment(tuple(messages.TopicPartitions(*each) for each in topics))
        response = messages.ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            assignment=assignment,
        )
        # A new group takes its place now: the state of its partitions is reported to it.
        self._context.groups[group.group_id] = group
        return ShareHeartbeatAnswer(response=response, to_initialize=_missing(group, wanted))

    def _epoch(
        self,
        step: Step,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        before: ShareMember,
        member: ShareMember,
        image: MetadataImage,
    ) -> int:
        """The epoch of the group: it rises when the member, or a topic of the group, has changed."""
        is_new = member.member_id not in group.members
        if is_new or member.metadata != before.metadata:
            step.outcome.write(records.member_record(group.group_id, member.member_id, member.metadata))
        names = {name for each in members.values() for name in each.metadata.subscribed_topic_names}
        metadata_hash = hash_of_topics(names, image)
        subscribed = member.metadata.subscribed_topic_names
        has_changed = is_new or subscribed != before.metadata.subscribed_topic_names
        if not has_changed and metadata_hash == group.metadata_hash:
            return group.epoch
        step.outcome.write(records.group_record(group.group_id, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _target(
        self,
        step: Step,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        member_id: str,
        epoch: int,
        wanted: Mapping[UUID, int],
        config: ShareConfig,
    ) -> tuple[int, frozenset[Place]]:
        """The epoch of the assignment and the member's part of it, once a due one is made."""
        has_target = member_id in group.targets
        is_recent = 0 <= step.now_ms - group.assignment_timestamp_ms < config.assignment_interval_ms
        if epoch <= group.assignment_epoch or (has_target and is_recent):
            if epoch > group.assignment_epoch:
                delay_ms = config.assignment_interval_ms - (step.now_ms - group.assignment_timestamp_ms)
                step.outcome.set_timer(AssignmentTimer(group.group_id), max(1, delay_ms))
            return group.assignment_epoch, group.targets.get(member_id, frozenset())
        targets = _assign(group, members, wanted, self._context.image())
        for each, places in targets.items():
            if group.targets.get(each) != places:
                step.outcome.write(records.target_record(group.group_id, each, places))
        step.outcome.write(records.target_epoch_record(group.group_id, epoch, step.now_ms))
        return epoch, targets[member_id]

    def _leave(self, step: Step, group: ShareGroup, member_id: str) -> ShareHeartbeatAnswer:
        if member_id not in group.members:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
        _remove(step, group, member_id, "leaves")
        response = messages.ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_GROUP)
        return ShareHeartbeatAnswer(response=response)

    def _find(self, group_id: str) -> ShareGroup:
        """The group. Raises ApiError GROUP_ID_NOT_FOUND when there is none, or one of another kind."""
        group = self._context.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    def _find_or_new(self, step: Step, group_id: str) -> ShareGroup:
        """The group that a member joins. A classic group without members and offsets becomes one."""
        group = self._context.groups.get(group_id)
        if group is not None and not (isinstance(group, ClassicGroup) and group.is_empty):
            return self._find(group_id)
        if group is None and len(self._context.groups) >= GROUPS_PER_SHARD_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "There are too many groups.")
        if isinstance(group, ClassicGroup) and group.is_recorded:
            for record in group.tombstones():
                step.outcome.write(record)
        return ShareGroup(group_id)

    def _config(self, group_id: str) -> ShareConfig:
        return self._context.config.share.of_group(group_id)

    # What the shard asks

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record; the first of a group makes it, the tombstone of its own record removes it."""
        key = record.key
        group_id = cast("formats.ShareGroupMetadataKey", key).group_id  # every key of a group names it
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            if record.value is None:
                return
            group = self._context.groups[group_id] = ShareGroup(group_id)
        if isinstance(key, formats.ShareGroupMetadataKey) and record.value is None:
            del self._context.groups[group_id]
        else:
            group.replay(record)

    def begin_sessions(self, step: Step, group: Group) -> int:
        """The group was loaded: every member has a whole session."""
        assert isinstance(group, ShareGroup)
        timeout_ms = self._config(group.group_id).session_timeout_ms
        for member_id in group.members:
            step.outcome.set_timer(SessionTimer(group.group_id, member_id), timeout_ms)
        return len(group.members)

    def handle_timer(self, step: Step, group: Group, key: MemberTimer) -> None:
        """A timer of a group is due. An assignment that was put off is made by the next heartbeat."""
        assert isinstance(group, ShareGroup)
        if isinstance(key, SessionTimer) and key.member_id in group.members:
            _remove(step, group, key.member_id, "sent no heartbeat within its session timeout and is removed")


def _remove(step: Step, group: ShareGroup, member_id: str, why: str) -> None:
    logger.info("share group %s: member %s %s", group.group_id, member_id, why)
    for record in records.member_tombstones(group.group_id, member_id):
        step.outcome.write(record)
    step.outcome.write(records.group_record(group.group_id, group.epoch + 1, group.metadata_hash))
    step.outcome.cancel_timer(SessionTimer(group.group_id, member_id))


def _member_of(group: ShareGroup, request: messages.ShareGroupHeartbeatRequest, config: ShareConfig) -> ShareMember:
    """The member as it is now, or a new one. Raises ApiError."""
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != JOIN_GROUP:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {request.member_id} is not a member of group {group.group_id}.",
            )
        members_max = min(config.max_size, MEMBERS_MAX)
        if len(group.members) >= members_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {members_max} members.",
            )
        logger.info("share group %s: member %s joins", group.group_id, request.member_id)
        return ShareMember(request.member_id)
    epoch = request.member_epoch
    if epoch in (JOIN_GROUP, member.epoch) or (epoch == member.previous_epoch and epoch < member.epoch):
        return member
    word = "greater" if epoch > member.epoch else "smaller"
    before = (
        "" if epoch > member.epoch else f", and it does not match the previous member epoch ({member.previous_epoch})"
    )
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {word} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}){before}. The member must abandon all its partitions and rejoin.",
    )


def _metadata_of(member: ShareMember, said: ShareHeartbeat) -> formats.ShareGroupMemberMetadataValue:
    request, before = said.request, member.metadata
    names = request.subscribed_topic_names
    return formats.ShareGroupMemberMetadataValue(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else tuple(sorted(set(names))),
    )


def _wanted(members: Mapping[str, ShareMember], image: MetadataImage) -> dict[UUID, int]:
    """The topics that members are subscribed to and that exist, with their numbers of partitions."""
    names = {name for member in members.values() for name in member.metadata.subscribed_topic_names}
    topics = (image.topic(name) for name in names)
    return {topic.topic_id: len(topic.partitions) for topic in topics if topic is not None}


def _missing(group: ShareGroup, wanted: Mapping[UUID, int]) -> TopicPartitions:
    """The partitions that have no delivery state yet."""
    found: TopicPartitions = {}
    for topic_id, count in wanted.items():
        _, initialized = group.initialized.get(topic_id, ("", frozenset()))
        missing = tuple(partition for partition in range(count) if partition not in initialized)
        if missing:
            found[topic_id] = missing
    return found


def _assign(
    group: ShareGroup, members: Mapping[str, ShareMember], wanted: Mapping[UUID, int], image: MetadataImage
) -> dict[str, frozenset[Place]]:
    """Who is to have which of the partitions whose state exists."""
    counts = {topic_id: count for topic_id, count in wanted.items() if topic_id in group.initialized}
    by_name = {name: topic_id for topic_id in counts for name in (group.initialized[topic_id][0],)}
    subscriptions = {
        member_id: {by_name[name] for name in member.metadata.subscribed_topic_names if name in by_name}
        for member_id, member in members.items()
    }
    targets = assign(subscriptions, counts, group.targets)
    return {
        member_id: frozenset(place for place in places if place.partition in group.initialized[place.topic_id][1])
        for member_id, places in targets.items()
    }


def _require_valid(request: messages.ShareGroupHeartbeatRequest) -> None:
    """Raises ApiError INVALID_REQUEST in Kafka's words, or INVALID_GROUP_ID for a name that cannot be kept."""
    for value, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if value is not None and not value.strip():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if len(request.group_id.encode()) > GROUP_ID_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, f"A group id has at most {GROUP_ID_BYTES_MAX} bytes.")
    if len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"MemberId has at most {MEMBER_ID_LENGTH_MAX} characters.")
    if request.member_epoch == JOIN_GROUP and not request.subscribed_topic_names:
        raise ApiError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_GROUP:
        raise ApiError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if len(request.subscribed_topic_names or ()) > TOPICS_PER_MEMBER_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A member subscribes to at most {TOPICS_PER_MEMBER_MAX} topics.")


def _describe(group: ShareGroup, image: MetadataImage) -> described.DescribedGroup:
    return described.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=tuple(_described_member(member, image) for member in group.members.values()),
    )


def _described_member(member: ShareMember, image: MetadataImage) -> described.Member:
    said = member.metadata
    topics = []
    for topic_id, partitions in records.by_topic(member.assigned).items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            topics.append(described.TopicPartitions(topic_id, topic.name, partitions))
    return described.Member(
        member_id=member.member_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=said.subscribed_topic_names,
        assignment=described.Assignment(tuple(topics)),
    )
