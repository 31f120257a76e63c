"""The records of a streams group, written and read back."""

from ottla.groups.records import KeyedRecord
from ottla.groups.streams import streams_records as records
from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.streams_group import StreamsGroup, StreamsGroupState
from ottla.groups.streams.tasks import AssignedTasks, Task, Tasks
from ottla.protocol.coordinator_records.streams_group import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyValue,
    Subtopology,
)

MEMBER = StreamsMember(
    "m",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_TASKS,
    assigned=AssignedTasks({Task("0", 1): 3, Task("0", 2): 5, Task("1", 0): 5}, frozenset({Task("1", 7)})),
    revoking=AssignedTasks({Task("0", 0): 2}, frozenset(), frozenset({Task("1", 8)})),
)


def through_bytes(record: KeyedRecord) -> KeyedRecord:
    value = record.value
    return KeyedRecord(
        type(record.key).decode(0, record.key.encode(0)),
        None if value is None else type(value).decode(0, value.encode(0)),
    )


def replayed(*written: KeyedRecord) -> StreamsGroup:
    group = StreamsGroup("app")
    for record in written:
        group.replay(through_bytes(record))
    return group


def test_a_member_comes_back_from_its_records_in_any_order():
    metadata = StreamsGroupMemberMetadataValue(instance_id=None, rack_id="r", process_id="p", topology_epoch=1)
    both = (records.member_record("app", "m", metadata), records.current_record("app", MEMBER))
    for order in (both, both[::-1]):
        member = replayed(*order).members["m"]
        assert (member.metadata, member.epoch, member.previous_epoch) == (metadata, 5, 4)
        assert (member.state, member.assigned, member.revoking) == (MEMBER.state, MEMBER.assigned, MEMBER.revoking)


def test_tasks_of_a_broker_that_kept_no_epochs_count_from_the_epoch_of_the_member():
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=9, state=1, active_tasks=(StreamsGroupCurrentMemberAssignmentTaskIds("0", (1, 2)),)
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="app", member_id="m")
    member = replayed(KeyedRecord(key, value)).members["m"]
    assert member.assigned.epochs == {Task("0", 1): 9, Task("0", 2): 9}


def test_a_state_of_a_newer_broker_is_one_in_which_a_member_keeps_what_it_has():
    value = StreamsGroupCurrentMemberAssignmentValue(member_epoch=9, state=77)
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="app", member_id="m")
    assert replayed(KeyedRecord(key, value)).members["m"].state is MemberState.UNRELEASED_TASKS


def test_the_group_comes_back_from_its_records():
    target = Tasks(frozenset({Task("0", 3)}), frozenset({Task("1", 1)}))
    topology = StreamsGroupTopologyValue(epoch=7, subtopologies=(Subtopology("0", ("orders",)),))
    group = replayed(
        records.group_record("app", 8, -5, 7, {"num.standby.replicas": "1"}),
        records.topology_record("app", topology),
        records.target_record("app", "m", target),
        records.target_epoch_record("app", 8, 1234),
        records.current_record("app", MEMBER),
    )
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms) == (8, -5, 8, 1234)
    assert group.assignment_configs == {"num.standby.replicas": "1"}
    assert group.topology == topology
    assert group.target("m") == target
    assert group.state is StreamsGroupState.RECONCILING


def test_a_member_that_is_removed_leaves_its_tasks_to_others():
    group = replayed(records.current_record("app", MEMBER))
    assert not group.owners.may_be_active(Task("0", 0), "other"), "it has not given it up yet"
    for record in records.member_tombstones("app", "m"):
        group.replay(record)
    assert group.is_empty
    assert group.owners.may_be_active(Task("0", 0), "other")
    assert group.owners.may_be_copy(Task("1", 8), "")


def test_the_tombstones_of_a_group_are_those_of_all_its_records():
    group = replayed(records.current_record("app", MEMBER))
    keys = [type(record.key).RECORD_TYPE for record in group.tombstones()]
    assert sorted(keys) == [17, 19, 20, 21, 22, 23]
    assert all(record.value is None for record in group.tombstones())
