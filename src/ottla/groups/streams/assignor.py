"""The sticky task assignor: who works on which task, given who did before.

Three aims, the first before the second before the third:

1. Every task is active at exactly one member; the numbers of active tasks of any two members differ by one at most.
   A task with state has as many standbys as asked for, or as there are other processes, never two copies of one task
   in one process: they would share a disk, and go down together.
2. A task stays where it is, else goes where a copy of its state is.
3. Processes carry alike; a fresh group is dealt task by task, so that tasks of one partition come together.

Members of one process are its threads. Apache Kafka's assignor of the same name has these aims; which of two equal
members gets a task may differ, which no client can rely on.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from msgspec import Struct, field

from ottla.groups.streams.tasks import Task, Tasks


class AssignmentMember(Struct, frozen=True):
    """A member as the assignor sees it: its process, and the tasks that it was to have before."""

    member_id: str
    process_id: str
    before: Tasks


class Subtasks(Struct, frozen=True):
    """The tasks of one subtopology: how many, and whether they keep state that standbys could copy."""

    subtopology_id: str
    count: int
    is_stateful: bool


def assign(
    members: Iterable[AssignmentMember], subtopologies: Sequence[Subtasks], standby_replicas: int
) -> dict[str, Tasks]:
    """The tasks of each member, by its id. The same question has the same answer, whatever the order of `members`."""
    everybody = sorted(members, key=lambda member: member.member_id)
    if not everybody:
        return {}
    state = _State(everybody)
    active = [Task(each.subtopology_id, index) for each in subtopologies for index in range(each.count)]
    _assign_active(state, sorted(active))
    if standby_replicas > 0:
        stateful = {each.subtopology_id for each in subtopologies if each.is_stateful}
        _assign_standbys(state, [task for task in active if task.subtopology_id in stateful], standby_replicas)
    return {load.member_id: Tasks(frozenset(load.active), frozenset(load.standby)) for load in state.loads.values()}


class _Process(Struct):
    members: list["_Load"] = field(default_factory=list)
    tasks: set[Task] = field(default_factory=set)

    @property
    def load(self) -> float:
        """Tasks per thread."""
        return len(self.tasks) / len(self.members)


class _Load(Struct):
    member_id: str
    process: _Process
    active: list[Task] = field(default_factory=list)
    standby: list[Task] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    def add_active(self, task: Task) -> None:
        self.active.append(task)
        self.process.tasks.add(task)

    def add_standby(self, task: Task) -> None:
        self.standby.append(task)
        self.process.tasks.add(task)


class _State:
    """What is given out so far, and where each task was."""

    def __init__(self, members: Sequence[AssignmentMember]) -> None:
        self.processes: dict[str, _Process] = {}
        self.loads: dict[str, _Load] = {}
        self.active_before: dict[Task, _Load] = {}
        self.copies_before: dict[Task, list[_Load]] = {}
        for member in members:
            process = self.processes.setdefault(member.process_id, _Process())
            load = self.loads[member.member_id] = _Load(member.member_id, process)
            process.members.append(load)
            for task in member.before.active:
                self.active_before.setdefault(task, load)
            for task in (*member.before.standby, *member.before.warmup):
                self.copies_before.setdefault(task, []).append(load)


def _assign_active(state: _State, tasks: Sequence[Task]) -> None:
    """Give every task to one member: `share` to each, and one more to so many of them as it does not divide."""
    share, extras = divmod(len(tasks), len(state.loads))
    moving = _keep(tasks, state.active_before, share)
    homeless = _keep(moving, state.active_before, share + 1, extras)
    extras -= len(moving) - len(homeless)
    new = []
    for task in homeless:
        candidates = [load for load in state.copies_before.get(task, ()) if len(load.active) < share + (extras > 0)]
        if not candidates:
            new.append(task)
            continue
        chosen = min(candidates, key=_by_load)
        extras -= len(chosen.active) == share
        chosen.add_active(task)
    queue = [(len(load.active), load.process.load, member_id) for member_id, load in state.loads.items()]
    heapify(queue)
    for task in new:
        while True:
            count, process_load, member_id = queue[0]
            load = state.loads[member_id]
            if process_load == load.process.load:
                break
            # Another thread of the process was given something since.
            heapreplace(queue, (count, load.process.load, member_id))
        load.add_active(task)
        heapreplace(queue, (len(load.active), load.process.load, member_id))


def _keep(tasks: Sequence[Task], before: Mapping[Task, _Load], limit: int, count_max: int | None = None) -> list[Task]:
    """Leave tasks where they were, up to `limit` a member and `count_max` together; returns those that must go."""
    left = []
    for task in tasks:
        load = before.get(task)
        if load is None or len(load.active) >= limit or count_max == 0:
            left.append(task)
            continue
        load.add_active(task)
        if count_max is not None:
            count_max -= 1
    return left


def _assign_standbys(state: _State, tasks: Sequence[Task], replicas: int) -> None:
    """Give copies of each task to processes that have none of it, first to where one was."""
    total = sum(load.count for load in state.loads.values()) + len(tasks) * replicas
    share = -(-total // len(state.loads))
    missing: list[tuple[Task, int]] = []
    # From the last task on: where tasks were dealt in order, the last ones lie where there is most room.
    for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
        count = 0
        active = state.active_before.get(task)
        for load in (*(() if active is None else (active,)), *sorted(state.copies_before.get(task, ()), key=_by_load)):
            if count < replicas and load.count < share and task not in load.process.tasks:
                load.add_standby(task)
                count += 1
        if count < replicas:
            missing.append((task, replicas - count))
    _assign_to_least_loaded(state, sorted(missing, reverse=True))


def _assign_to_least_loaded(state: _State, missing: Iterable[tuple[Task, int]]) -> None:
    """Give each task so many copies to processes that have none of it, as far as there are such."""
    queue = [(process.load, number, process) for number, process in enumerate(state.processes.values())]
    heapify(queue)
    for task, count in missing:
        left, seen = count, []
        while queue and left > 0:
            load, number, process = heappop(queue)
            if task not in process.tasks:
                min(process.members, key=lambda member: (member.count, member.member_id)).add_standby(task)
                load = process.load
                left -= 1
            seen.append((load, number, process))
        for entry in seen:
            heappush(queue, entry)


def _by_load(load: _Load) -> tuple[int, float, str]:
    return load.count, load.process.load, load.member_id
