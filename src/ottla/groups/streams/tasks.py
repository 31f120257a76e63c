"""Tasks: what the members of a streams group share among themselves (KIP-1071).

A subtopology is a part of an application's topology that is connected without topics in between. It has as many tasks
as the largest of its source topics has partitions; task 3 reads partition 3 of each.

    subtopology "0", source topic of 2 partitions   ->  tasks 0_0, 0_1
    subtopology "1", source topics of 1 and 3       ->  tasks 1_0, 1_1, 1_2

One member works on a task: it is active there. Others may keep copies of its state as standbys, and a warm-up is a
copy on its way to become the active one.
"""

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct


class Task(NamedTuple):
    """One task, as `subtopology_partition` in Kafka's logs."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


_NO_TASKS: Final[frozenset[Task]] = frozenset()


class Tasks(Struct, frozen=True):
    """Tasks by what a member is in them."""

    active: Set[Task] = _NO_TASKS
    standby: Set[Task] = _NO_TASKS
    warmup: Set[Task] = _NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, other: "Tasks") -> bool:
        """Whether a task stands in the same part of both."""
        return not (
            self.active.isdisjoint(other.active)
            and self.standby.isdisjoint(other.standby)
            and self.warmup.isdisjoint(other.warmup)
        )

    def is_within(self, other: "Tasks") -> bool:
        """Whether all of them stand in the same part of the other."""
        return self.active <= other.active and self.standby <= other.standby and self.warmup <= other.warmup


class AssignedTasks(Struct, frozen=True):
    """Tasks a member has. `epochs` are the active ones, each with the assignment epoch at which the member got it:
    with an older member epoch it may still commit offsets of them, but no older than that (KIP-1251).
    """

    epochs: Mapping[Task, int] = MappingProxyType({})
    standby: frozenset[Task] = _NO_TASKS
    warmup: frozenset[Task] = _NO_TASKS

    @property
    def tasks(self) -> Tasks:
        """The tasks without their epochs."""
        return Tasks(self.epochs.keys(), self.standby, self.warmup)


NO_TASKS: Final = Tasks()
NOTHING_ASSIGNED: Final = AssignedTasks()


def by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    """The partitions of each subtopology, sorted, as messages and records have them."""
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return {subtopology_id: tuple(partitions) for subtopology_id, partitions in found.items()}
