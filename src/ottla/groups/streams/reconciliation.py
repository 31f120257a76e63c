"""One step of a member towards the assignment it is to have (KIP-1071, as KIP-848 for partitions).

First a member gives up what it is not to have any more, and says so; only then does it reach the epoch of the
assignment and get what others have given up. So no task is ever active at two members.
"""

from collections.abc import Callable, Set

from msgspec.structs import replace

from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.task_owners import TaskOwners
from ottla.groups.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, Task, Tasks


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, owners: TaskOwners, owned: Tasks | None
) -> StreamsMember:
    """The member after this step; the same object when there is none to take.

    `owned` is what the member says it has, None when its heartbeat does not say.
    """
    epoch = member.epoch
    if member.state is MemberState.STABLE:
        if epoch == target_epoch:
            return member
    elif member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or owned.overlaps(member.revoking.tasks):
            return member
        epoch += 1
    return _next(member, epoch, target_epoch, target, owners, owned)


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owners: TaskOwners, owned: Tasks | None
) -> StreamsMember:
    process_id, has = member.process_id, member.assigned
    kept = AssignedTasks(
        {task: since for task, since in has.epochs.items() if task in target.active},
        has.standby & target.standby,
        has.warmup & target.warmup,
    )
    revoking = AssignedTasks(
        {task: since for task, since in has.epochs.items() if task not in target.active},
        has.standby - target.standby,
        has.warmup - target.warmup,
    )
    to_revoke = revoking.tasks
    if not to_revoke.is_empty and (owned is None or owned.overlaps(to_revoke)):
        return replace(
            member,
            state=MemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=_previous_epoch(member, epoch),
            assigned=kept,
            revoking=revoking,
        )
    active = _free(target.active - kept.epochs.keys(), process_id, owners.may_be_active)
    standby = _free(target.standby - kept.standby, process_id, owners.may_be_copy)
    warmup = _free(target.warmup - kept.warmup, process_id, owners.may_be_copy)
    assigned = AssignedTasks(
        {**kept.epochs, **dict.fromkeys(sorted(active), target_epoch)},
        kept.standby | standby,
        kept.warmup | warmup,
    )
    return replace(
        member,
        state=MemberState.STABLE if assigned.tasks == target else MemberState.UNRELEASED_TASKS,
        epoch=target_epoch,
        previous_epoch=_previous_epoch(member, target_epoch),
        assigned=assigned,
        revoking=NOTHING_ASSIGNED,
    )


def _previous_epoch(member: StreamsMember, epoch: int) -> int:
    return member.previous_epoch if epoch == member.epoch else member.epoch


def _free(tasks: Set[Task], process_id: str, may_have: Callable[[Task, str], bool]) -> frozenset[Task]:
    return frozenset(task for task in tasks if may_have(task, process_id))
