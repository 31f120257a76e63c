"""A streams group: what its records say of it (KIP-1071), changed by replay alone.

StreamsGroupMetadata                    epoch: rises when something changes that the assignment rests on
StreamsGroupTopology                    what the application is made of
StreamsGroupMemberMetadata              what a member said of itself
StreamsGroupTargetAssignmentMetadata    the epoch of the assignment: once it has reached the group's, it is up to date
StreamsGroupTargetAssignmentMember      what a member is to have
StreamsGroupCurrentMemberAssignment     what a member has, and its own epoch
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from ottla.groups.group import GroupType
from ottla.groups.records import CommittedOffset, KeyedRecord
from ottla.groups.requests import CommitOffsets
from ottla.groups.streams import streams_records as records
from ottla.groups.streams.configured_topology import ConfiguredTopology
from ottla.groups.streams.member import LEFT_EPOCH, MemberState, StreamsMember
from ottla.groups.streams.task_owners import TaskOwners
from ottla.groups.streams.tasks import NO_TASKS, NOTHING_ASSIGNED, Task, Tasks
from ottla.groups.streams.topology import Topology, subtopology_of_topic
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.coordinator_records import streams_group as formats

PROTOCOL_TYPE: Final = "streams"


class StreamsGroupState(Enum):
    """What a group is doing; the values are the names clients see."""

    EMPTY = "Empty"
    """It has no members."""
    NOT_READY = "NotReady"
    """Topics that its topology needs are missing or do not fit."""
    ASSIGNING = "Assigning"
    """What its members are to have is not decided yet."""
    RECONCILING = "Reconciling"
    """Members are on their way to what they are to have."""
    STABLE = "Stable"
    """Every member has it."""


class StreamsGroup:
    """One group. All below `Memory` is not in the records: it begins anew when another broker, or this one after a
    restart, loads the group.
    """

    __slots__ = (
        "_topic_subtopologies",
        "assignment_configs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "awaits_members",
        "configured",
        "endpoint_epoch",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "seen_image",
        "shutdown_requested_by",
        "targets",
        "topology",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.validated_topology_epoch = -1
        self.assignment_configs: Mapping[str, str] = {}
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self._topic_subtopologies: Mapping[str, str] = {}

        # Memory
        self.configured: ConfiguredTopology | None = None
        """The topology held against the topics there were in `seen_image`."""
        self.seen_image: MetadataImage | None = None
        self.shutdown_requested_by: str | None = None
        """The member that asked for the whole application to stop; told to all others until the group is empty."""
        self.endpoint_epoch = 0
        """Rises with each change of who serves which partitions to interactive queries."""
        self.awaits_members = False
        """Whether the first assignment of a new group is put off for members still to come."""

    # What a shard asks of any group

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str:
        """What its members do."""
        return PROTOCOL_TYPE

    @property
    def state(self) -> StreamsGroupState:
        """What it is doing."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """What it is doing, as clients see it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def check_commit(self, request: CommitOffsets) -> ErrorCode:
        """NONE for a member at its epoch, or at an older one for tasks that it has had since then (KIP-1251), and for
        anybody while there are no members.
        """
        committer = request.committer
        if committer.generation_id < 0 and not self.members:
            return ErrorCode.NONE
        names_nobody = committer.generation_id < 0 and not committer.member_id and committer.instance_id is None
        if committer.is_transactional and names_nobody:
            return ErrorCode.NONE
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not (committer.is_transactional or committer.knows_group_id_not_found):
            # The same version of OffsetCommit brought both.
            return ErrorCode.UNSUPPORTED_VERSION
        if committer.generation_id == member.epoch:
            return ErrorCode.NONE
        if committer.generation_id > member.epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
        for topic in request.topics:
            for offset in topic.offsets:
                since = self._assigned_since(member, TopicPartition(topic.topic, offset.partition))
                if since is None or committer.generation_id < since:
                    return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def _assigned_since(self, member: StreamsMember, partition: TopicPartition) -> int | None:
        """The epoch at which the member got the task of a partition; None when it has it not."""
        subtopology_id = self._topic_subtopologies.get(partition.topic)
        if subtopology_id is None:
            return None
        task = Task(subtopology_id, partition.partition)
        since = member.assigned.epochs.get(task)
        return member.revoking.epochs.get(task) if since is None else since

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """NONE for a member at its epoch, and for whoever does not say that he is one."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading the topic."""
        return bool(self.members) and topic in self._topic_subtopologies

    def unused_since_ms(self, topic: str, committed: CommittedOffset) -> int | None:
        """When the retention of an offset began: with the commit, unless the group reads the topic."""
        return None if self.is_subscribed_to(topic) else committed.commit_timestamp_ms

    def tombstones(self) -> Iterator[KeyedRecord]:
        """The records that remove the group, offsets aside."""
        for member_id in tuple(self.members):
            yield from records.member_tombstones(self.group_id, member_id)
        yield from records.group_tombstones(self.group_id)

    # Replay

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record of this group. A tombstone of the group itself is for the shard, which forgets the group."""
        _REPLAY[type(record.key)](self, record.key, record.value)

    def _replay_group(
        self, key: formats.StreamsGroupMetadataKey, value: formats.StreamsGroupMetadataValue | None
    ) -> None:
        if value is not None:
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash
            self.validated_topology_epoch = value.validated_topology_epoch
            self.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}

    def _replay_topology(
        self, key: formats.StreamsGroupTopologyKey, value: formats.StreamsGroupTopologyValue | None
    ) -> None:
        self.topology = value
        self._topic_subtopologies = {} if value is None else subtopology_of_topic(value)

    def _replay_member(
        self, key: formats.StreamsGroupMemberMetadataKey, value: formats.StreamsGroupMemberMetadataValue | None
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(replace(member or StreamsMember(key.member_id), metadata=value))
        elif member is not None:
            self.owners.replace(member, None)
            del self.members[key.member_id]
            if not self.members:
                self.shutdown_requested_by = None

    def _replay_current(
        self,
        key: formats.StreamsGroupCurrentMemberAssignmentKey,
        value: formats.StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(records.with_assignment(member or StreamsMember(key.member_id), value))
        elif member is not None:
            cleared = replace(
                member,
                epoch=LEFT_EPOCH,
                previous_epoch=LEFT_EPOCH,
                state=MemberState.STABLE,
                assigned=NOTHING_ASSIGNED,
                revoking=NOTHING_ASSIGNED,
            )
            self._put(cleared)

    def _replay_target(
        self,
        key: formats.StreamsGroupTargetAssignmentMemberKey,
        value: formats.StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = records.target_tasks(value)

    def _replay_target_epoch(
        self,
        key: formats.StreamsGroupTargetAssignmentMetadataKey,
        value: formats.StreamsGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _put(self, member: StreamsMember) -> None:
        self.owners.replace(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def target(self, member_id: str) -> Tasks:
        """What a member is to have."""
        return self.targets.get(member_id, NO_TASKS)


_REPLAY: Final[Mapping[type, Callable[[StreamsGroup, Any, Any], None]]] = {
    formats.StreamsGroupMetadataKey: StreamsGroup._replay_group,
    formats.StreamsGroupTopologyKey: StreamsGroup._replay_topology,
    formats.StreamsGroupMemberMetadataKey: StreamsGroup._replay_member,
    formats.StreamsGroupTargetAssignmentMetadataKey: StreamsGroup._replay_target_epoch,
    formats.StreamsGroupTargetAssignmentMemberKey: StreamsGroup._replay_target,
    formats.StreamsGroupCurrentMemberAssignmentKey: StreamsGroup._replay_current,
}
