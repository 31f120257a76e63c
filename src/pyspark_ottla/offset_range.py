"""Ranges of offsets to read, and their distribution over Spark's tasks.

Each task of a Python source needs a Python process and a connection to it, so a task gets several small partitions.
One partition that has more than a task's share is read by several tasks.

```
    events-0 |##########################|      task 0: events-0 [0, 13)  events-2 [0, 4)
    events-1 |#######|                    ->
    events-2 |####|                            task 1: events-0 [13, 26) events-1 [0, 7)
```
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from ottla.model.topic_partition import TopicPartition

RECORDS_WORTH_A_TASK = 10_000
"""With fewer than this for each task, the start of a task costs more than reading at the same time saves."""


@dataclass(frozen=True, order=True, slots=True)
class OffsetRange:
    """The offsets from `start` up to, not including, `end` of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets; compaction and transactions may have left fewer records."""
        return self.end - self.start


class TaskRanges(InputPartition):
    """The ranges that one Spark task reads, in this order."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)

    def __repr__(self) -> str:
        return f"TaskRanges({self.ranges!r})"


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The ranges between two positions. Empty ranges, and partitions without a start, are left out."""
    return [
        OffsetRange(each, start[each], end[each]) for each in sorted(end) if each in start and start[each] < end[each]
    ]


def task_count(ranges: Iterable[OffsetRange], tasks_max: int, tasks_min: int = 1) -> int:
    """The number of tasks for these ranges, between the two limits."""
    worth = sum(each.count for each in ranges) // RECORDS_WORTH_A_TASK
    return max(min(worth, tasks_max), tasks_min, 1)


def pack(ranges: Sequence[OffsetRange], tasks: int, task_max: int | None = None) -> list[TaskRanges]:
    """The ranges in `tasks` tasks of about the same number of offsets, or in more where one would exceed `task_max`.

    Ranges above a task's share are cut into equal pieces; then each piece, the longest first, goes to the task that has
    least (LPT scheduling: no task gets more than 4/3 of what it would get in the best plan).
    """
    share = -(-sum(each.count for each in ranges) // tasks)
    limit = max(share, 1) if task_max is None else min(max(share, 1), task_max)
    pieces = [piece for each in ranges for piece in split(each, limit)]
    loads = [(0, task) for task in range(min(tasks, len(pieces)))]
    packed: list[list[OffsetRange]] = [[] for _ in loads]
    for piece in sorted(pieces, key=lambda piece: piece.count, reverse=True):
        load, task = loads[0]
        if task_max is not None and load and load + piece.count > task_max:
            # None has less, so none has room.
            heapq.heappush(loads, (piece.count, len(packed)))
            packed.append([piece])
            continue
        packed[task].append(piece)
        heapq.heapreplace(loads, (load + piece.count, task))
    return [TaskRanges(sorted(task)) for task in packed]


def split(whole: OffsetRange, limit: int) -> list[OffsetRange]:
    """The range in as few pieces as possible of at most `limit` offsets, equal but for one offset.

    >>> [(piece.start, piece.end) for piece in split(OffsetRange(TopicPartition("events", 0), 0, 10), 4)]
    [(0, 3), (3, 6), (6, 10)]
    """
    count = -(-whole.count // limit)
    bounds = [whole.start + whole.count * index // count for index in range(count + 1)]
    return [OffsetRange(whole.topic_partition, low, high) for low, high in pairwise(bounds)]
