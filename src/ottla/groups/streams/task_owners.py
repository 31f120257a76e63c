"""Which process has which task now: what a member may not get before another has given it up."""

from collections import Counter
from typing import TypeVar

from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.tasks import Task

K = TypeVar("K")


class TaskOwners:
    """Counts what the members of a group have, tasks that they are still to give up included."""

    __slots__ = ("_active", "_active_anywhere", "_copies")

    def __init__(self) -> None:
        self._active: Counter[tuple[Task, str]] = Counter()
        self._active_anywhere: Counter[Task] = Counter()
        self._copies: Counter[tuple[Task, str]] = Counter()

    def replace(self, before: StreamsMember | None, after: StreamsMember | None) -> None:
        """A member changed, came (from None) or went (to None)."""
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)

    def may_be_active(self, task: Task, process_id: str) -> bool:
        """Whether nobody is active in the task and the process has no copy of it."""
        return task not in self._active_anywhere and (task, process_id) not in self._copies

    def may_be_copy(self, task: Task, process_id: str) -> bool:
        """Whether the process has nothing of the task."""
        return (task, process_id) not in self._active and (task, process_id) not in self._copies

    def _add(self, member: StreamsMember, sign: int) -> None:
        for part in (member.assigned, member.revoking):
            for task in part.epochs:
                _count(self._active, (task, member.process_id), sign)
                _count(self._active_anywhere, task, sign)
            for task in (*part.standby, *part.warmup):
                _count(self._copies, (task, member.process_id), sign)


def _count(counter: "Counter[K]", key: K, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
