"""The records of a streams group, made from what it is about and read back (formats: types 17 and 19 to 23)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from ottla.groups.records import KeyedRecord
from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.tasks import AssignedTasks, Task, Tasks, by_subtopology
from ottla.groups.streams.topology import Topology
from ottla.protocol.coordinator_records.streams_group import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberTaskIds,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)

_CurrentIds: TypeAlias = tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...]
_TargetIds: TypeAlias = tuple[StreamsGroupTargetAssignmentMemberTaskIds, ...]


def group_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> KeyedRecord:
    """The group reached an epoch."""
    return KeyedRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=tuple(LastAssignmentConfig(key, value) for key, value in sorted(configs.items())),
        ),
    )


def topology_record(group_id: str, topology: Topology) -> KeyedRecord:
    """What the application is made of."""
    return KeyedRecord(StreamsGroupTopologyKey(group_id=group_id), topology)


def member_record(group_id: str, member_id: str, metadata: StreamsGroupMemberMetadataValue) -> KeyedRecord:
    """What a member said of itself."""
    return KeyedRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), metadata)


def target_epoch_record(group_id: str, assignment_epoch: int, now_ms: int) -> KeyedRecord:
    """The assignment is up to date with an epoch of the group."""
    return KeyedRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=now_ms),
    )


def target_record(group_id: str, member_id: str, tasks: Tasks) -> KeyedRecord:
    """What a member is to have."""

    def ids(of: Iterable[Task]) -> _TargetIds:
        return tuple(
            StreamsGroupTargetAssignmentMemberTaskIds(subtopology_id, partitions)
            for subtopology_id, partitions in by_subtopology(of).items()
        )

    return KeyedRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=ids(tasks.active), standby_tasks=ids(tasks.standby), warmup_tasks=ids(tasks.warmup)
        ),
    )


def current_record(group_id: str, member: StreamsMember) -> KeyedRecord:
    """What a member has, and how far it has come."""
    assigned, revoking = member.assigned, member.revoking
    return KeyedRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_active_ids(assigned.epochs),
            standby_tasks=_current_ids(assigned.standby),
            warmup_tasks=_current_ids(assigned.warmup),
            active_tasks_pending_revocation=_active_ids(revoking.epochs),
            standby_tasks_pending_revocation=_current_ids(revoking.standby),
            warmup_tasks_pending_revocation=_current_ids(revoking.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> Iterator[KeyedRecord]:
    """The records that remove a member."""
    yield KeyedRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield KeyedRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield KeyedRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def group_tombstones(group_id: str) -> Iterator[KeyedRecord]:
    """The records that remove a group without members."""
    yield KeyedRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield KeyedRecord(StreamsGroupTopologyKey(group_id=group_id), None)
    yield KeyedRecord(StreamsGroupMetadataKey(group_id=group_id), None)


def target_tasks(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    """What a member is to have, from its record."""
    return Tasks(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))


def with_assignment(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    """A member with what its record says it has. A state that is not known is one in which it holds on to all."""
    states = {each.value for each in MemberState}
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if value.state in states else MemberState.UNRELEASED_TASKS,
        assigned=AssignedTasks(
            _epochs(value.active_tasks, value.member_epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
        ),
        revoking=AssignedTasks(
            _epochs(value.active_tasks_pending_revocation, value.member_epoch),
            _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def _active_ids(epochs: Mapping[Task, int]) -> _CurrentIds:
    return tuple(
        StreamsGroupCurrentMemberAssignmentTaskIds(
            subtopology_id, partitions, tuple(epochs[Task(subtopology_id, each)] for each in partitions)
        )
        for subtopology_id, partitions in by_subtopology(epochs).items()
    )


def _current_ids(tasks: Iterable[Task]) -> _CurrentIds:
    return tuple(
        StreamsGroupCurrentMemberAssignmentTaskIds(subtopology_id, partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    )


def _tasks(ids: _CurrentIds | _TargetIds) -> frozenset[Task]:
    return frozenset(Task(each.subtopology_id, partition) for each in ids for partition in each.partitions)


def _epochs(ids: _CurrentIds, member_epoch: int) -> dict[Task, int]:
    """Records of brokers that did not keep the epochs of tasks count as of the member's epoch."""
    found: dict[Task, int] = {}
    for each in ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = (member_epoch,) * len(each.partitions)
        found.update((Task(each.subtopology_id, p), epoch) for p, epoch in zip(each.partitions, epochs, strict=True))
    return found
