from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.streams.assignor import AssignmentMember, Subtasks, assign
from ottla.groups.streams.tasks import NO_TASKS, Task, Tasks

pytestmark = pytest.mark.slow

SUBTOPOLOGIES = st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=4).map(
    lambda counts: [Subtasks(str(index), count, stateful) for index, (count, stateful) in enumerate(counts)]
)
PROCESSES = st.lists(st.integers(0, 4), min_size=1, max_size=9)
"""The process of each member."""
REPLICAS = st.integers(0, 3)


def fresh(processes: list[int]) -> list[AssignmentMember]:
    return [AssignmentMember(f"m{index}", f"p{process}", NO_TASKS) for index, process in enumerate(processes)]


def after(members: list[AssignmentMember], targets: dict[str, Tasks]) -> list[AssignmentMember]:
    return [AssignmentMember(each.member_id, each.process_id, targets[each.member_id]) for each in members]


def check(members: list[AssignmentMember], subtopologies: list[Subtasks], replicas: int, got: dict[str, Tasks]) -> None:
    """What holds for every assignment."""
    everything = Counter(Task(each.subtopology_id, index) for each in subtopologies for index in range(each.count))
    assert got.keys() == {each.member_id for each in members}
    assert Counter(task for tasks in got.values() for task in tasks.active) == everything
    counts = [len(tasks.active) for tasks in got.values()]
    assert max(counts) - min(counts) <= 1
    process_of = {each.member_id: each.process_id for each in members}
    by_process: Counter[tuple[Task, str]] = Counter()
    copies: Counter[Task] = Counter()
    for member_id, tasks in got.items():
        by_process.update((task, process_of[member_id]) for task in (*tasks.active, *tasks.standby))
        copies.update(tasks.standby)
        assert not tasks.warmup
    assert set(by_process.values()) <= {1}, "two copies of a task in one process"
    expected = min(replicas, len(set(process_of.values())) - 1)
    stateful = {each.subtopology_id for each in subtopologies if each.is_stateful}
    for task in everything:
        assert copies[task] == (expected if task.subtopology_id in stateful else 0)


@given(PROCESSES, SUBTOPOLOGIES, REPLICAS)
def test_every_task_is_dealt_out_once_evenly_and_copied_in_other_processes(
    processes: list[int], subtopologies: list[Subtasks], replicas: int
):
    members = fresh(processes)
    check(members, subtopologies, replicas, assign(members, subtopologies, replicas))


@given(PROCESSES, PROCESSES, SUBTOPOLOGIES, REPLICAS, st.data())
def test_it_holds_from_any_assignment_to_the_next(
    processes: list[int], come: list[int], subtopologies: list[Subtasks], replicas: int, data: st.DataObject
):
    members = fresh(processes)
    before = after(members, assign(members, subtopologies, replicas))
    stay = data.draw(st.lists(st.sampled_from(before), unique_by=lambda each: each.member_id))
    come_new = [AssignmentMember(f"n{index}", f"p{process}", NO_TASKS) for index, process in enumerate(come)]
    grown = [Subtasks(each.subtopology_id, each.count + data.draw(st.integers(0, 2)), True) for each in subtopologies]
    check([*stay, *come_new], grown, replicas, assign([*stay, *come_new], grown, replicas))


@given(PROCESSES, SUBTOPOLOGIES, REPLICAS, st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(
    processes: list[int], subtopologies: list[Subtasks], replicas, random
):
    members = fresh(processes)
    shuffled = members.copy()
    random.shuffle(shuffled)
    assert assign(shuffled, subtopologies, replicas) == assign(members, subtopologies, replicas)


@given(PROCESSES, SUBTOPOLOGIES, REPLICAS)
def test_nothing_active_moves_when_nothing_changed(processes: list[int], subtopologies: list[Subtasks], replicas: int):
    members = fresh(processes)
    first = assign(members, subtopologies, replicas)
    second = assign(after(members, first), subtopologies, replicas)
    assert {each: tasks.active for each, tasks in second.items()} == {
        each: tasks.active for each, tasks in first.items()
    }


@given(PROCESSES, SUBTOPOLOGIES)
def test_members_that_stay_keep_their_tasks_when_one_goes(processes: list[int], subtopologies: list[Subtasks]):
    members = fresh([*processes, 0])
    before = after(members, assign(members, subtopologies, 0))
    stay = before[:-1]
    got = assign(stay, subtopologies, 0)
    for each in stay:
        assert each.before.active <= got[each.member_id].active


@given(PROCESSES, SUBTOPOLOGIES)
def test_a_member_that_comes_is_given_its_share_and_no_other_member_gets_more(
    processes: list[int], subtopologies: list[Subtasks]
):
    members = fresh(processes)
    before = after(members, assign(members, subtopologies, 0))
    got = assign([*before, AssignmentMember("new", "p9", NO_TASKS)], subtopologies, 0)
    for each in before:
        assert got[each.member_id].active <= each.before.active


def test_who_has_a_copy_takes_over():
    stateful = [Subtasks("0", 4, is_stateful=True)]
    members = fresh([0, 1])
    first = assign(members, stateful, 1)
    assert first["m0"].standby == first["m1"].active
    assert assign(after(members, first)[:1], stateful, 1)["m0"].active == first["m0"].active | first["m1"].active
    three = [*after(members, first)[:1], AssignmentMember("m2", "p2", NO_TASKS)]
    got = assign(three, stateful, 1)
    assert first["m0"].active <= got["m0"].active, "the one with the copies keeps what it had"


def test_tasks_with_copies_go_to_a_member_that_has_one():
    stateful = [Subtasks("0", 3, is_stateful=True)]
    gone, copy = Task("0", 0), Task("0", 1)
    members = [
        AssignmentMember("a", "p0", Tasks(frozenset(), frozenset({gone}))),
        AssignmentMember("b", "p1", Tasks(frozenset({copy}))),
        AssignmentMember("c", "p2", NO_TASKS),
    ]
    got = assign(members, stateful, 0)
    assert gone in got["a"].active
    assert copy in got["b"].active


def test_a_fresh_group_is_dealt_out_task_by_task_so_that_partitions_come_together():
    got = assign(fresh([0, 1]), [Subtasks("0", 2, False), Subtasks("1", 2, False)], 0)
    assert {member_id: sorted(map(str, tasks.active)) for member_id, tasks in got.items()} == {
        "m0": ["0_0", "1_0"],
        "m1": ["0_1", "1_1"],
    }


def test_with_fewer_tasks_than_members_processes_share_before_threads_do():
    got = assign(fresh([0, 0, 0, 1]), [Subtasks("0", 2, False)], 0)
    assert sum(bool(got[member_id].active) for member_id in ("m0", "m1", "m2")) == 1
    assert got["m3"].active


def test_nobody_there_is_nothing_to_assign():
    assert assign([], [Subtasks("0", 4, True)], 1) == {}
