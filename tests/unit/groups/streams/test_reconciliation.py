from msgspec.structs import replace

from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.reconciliation import reconcile
from ottla.groups.streams.task_owners import TaskOwners
from ottla.groups.streams.tasks import NO_TASKS, AssignedTasks, Task, Tasks
from ottla.protocol.coordinator_records.streams_group import StreamsGroupMemberMetadataValue

T0, T1, T2 = Task("0", 0), Task("0", 1), Task("0", 2)


def member(member_id: str = "a", process_id: str = "p", **fields) -> StreamsMember:
    return StreamsMember(member_id, StreamsGroupMemberMetadataValue(process_id=process_id), **fields)


def owners_of(*members: StreamsMember) -> TaskOwners:
    owners = TaskOwners()
    for each in members:
        owners.replace(None, each)
    return owners


def test_a_new_member_gets_what_is_free_at_once():
    new = member()
    got = reconcile(new, 2, Tasks(frozenset({T0}), frozenset({T1})), owners_of(), NO_TASKS)
    assert (got.state, got.epoch, got.assigned) == (MemberState.STABLE, 2, AssignedTasks({T0: 2}, frozenset({T1})))


def test_it_stays_at_its_epoch_until_it_says_that_it_gave_up_its_tasks():
    has = member(epoch=2, assigned=AssignedTasks({T0: 2, T1: 2}))
    target = Tasks(frozenset({T0}))
    revoking = reconcile(has, 3, target, owners_of(has), None)
    assert (revoking.state, revoking.epoch) == (MemberState.UNREVOKED_TASKS, 2)
    assert (revoking.assigned.epochs, revoking.revoking.epochs) == ({T0: 2}, {T1: 2})
    owners = owners_of(revoking)
    assert reconcile(revoking, 3, target, owners, None) is revoking
    assert reconcile(revoking, 3, target, owners, Tasks(frozenset({T0, T1}))) is revoking
    done = reconcile(revoking, 3, target, owners, Tasks(frozenset({T0})))
    assert (done.state, done.epoch, done.previous_epoch) == (MemberState.STABLE, 3, 2)
    assert done.assigned.epochs == {T0: 2}, "the task it kept was its own since epoch 2"


def test_a_task_that_another_member_is_still_to_give_up_is_waited_for():
    other = member("b", "q", epoch=2, assigned=AssignedTasks({T0: 2}), revoking=AssignedTasks({T1: 2}))
    waiting = reconcile(member(), 3, Tasks(frozenset({T1, T2})), owners_of(other), NO_TASKS)
    assert (waiting.state, waiting.epoch, waiting.assigned.epochs) == (MemberState.UNRELEASED_TASKS, 3, {T2: 3})
    got = reconcile(waiting, 3, Tasks(frozenset({T1, T2})), owners_of(waiting), None)
    assert (got.state, got.assigned.epochs) == (MemberState.STABLE, {T1: 3, T2: 3})


def test_a_copy_may_be_beside_an_active_task_of_another_process_and_not_of_its_own():
    beside = member("b", "q", epoch=2, assigned=AssignedTasks({T0: 2}))
    target = Tasks(frozenset(), frozenset({T0}))
    assert reconcile(member(), 3, target, owners_of(beside), NO_TASKS).state is MemberState.STABLE
    own = replace(beside, metadata=StreamsGroupMemberMetadataValue(process_id="p"))
    assert reconcile(member(), 3, target, owners_of(own), NO_TASKS).state is MemberState.UNRELEASED_TASKS


def test_a_copy_becomes_active_once_it_was_given_up():
    has = member(epoch=2, assigned=AssignedTasks({}, frozenset({T0})))
    target = Tasks(frozenset({T0}))
    revoking = reconcile(has, 3, target, owners_of(has), None)
    assert revoking.state is MemberState.UNREVOKED_TASKS
    released = reconcile(revoking, 3, target, owners_of(revoking), NO_TASKS)
    assert (released.state, released.epoch) == (MemberState.UNRELEASED_TASKS, 3)
    got = reconcile(released, 3, target, owners_of(released), None)
    assert (got.state, got.assigned) == (MemberState.STABLE, AssignedTasks({T0: 3}))


def test_a_member_at_rest_stays_the_same_object():
    has = member(epoch=3, assigned=AssignedTasks({T0: 2}))
    assert reconcile(has, 3, Tasks(frozenset({T0})), owners_of(has), Tasks(frozenset({T0}))) is has
