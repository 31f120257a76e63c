"""Removes the offsets that deleted topics left behind, a slice in a turn of the event loop.

A topic may have a hundred thousand offsets in a shard, one for each group that read it. Nobody is shown them meanwhile
(`DeletedTopics`), so there is no hurry; what a crash leaves, the sweep after the next load finds. Offsets of open
transactions go as well: what they commit later would be a topic's that is gone.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from ottla.coordination.outcome import Answer, Waiter
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.offset_store import OffsetStore
from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.records import OffsetRecord
from ottla.groups.step import OffsetSweepTimer, Step
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

SLICE_ITEMS_MAX: Final = 250
"""Offsets, groups or members of a shard looked at in one turn of the loop: 1 to 2 ms when all of them change."""

SLICE_INTERVAL_MS: Final = 1
"""From one slice to the next: what came meanwhile goes first."""


class OffsetSweep:
    """The sweep of one shard. Pure: it reads the offsets and writes tombstones into the outcome of a step."""

    __slots__ = ("_deleted", "_mark", "_offsets", "_pending", "_removed", "_topic", "_topics", "_walk")

    def __init__(self, offsets: OffsetStore, pending: PendingOffsets, deleted: DeletedTopics) -> None:
        self._offsets = offsets
        self._pending = pending
        self._deleted = deleted
        self._topics: deque[str] = deque()
        self._topic: str | None = None
        self._mark: int | None = None
        self._removed = 0
        self._walk: Iterator[tuple[str, int]] = iter(())

    def begin_all(self, step: Step) -> None:
        """Look through all offsets there are: the shard was loaded, and does not know how far the last sweep came.

        When it loaded because the log had refused the tombstones, they wait: longer each time they are refused again.
        """
        topics = dict.fromkeys((*self._offsets.topics(), *self._pending.topics(), *self._deleted.names))
        if not self._deleted.sweep_delay_ms:
            self.begin(step, topics)
        elif topics:
            self._topics.extend(topics)
            step.outcome.set_timer(OffsetSweepTimer(), self._deleted.sweep_delay_ms)

    def begin(self, step: Step, topics: Iterable[str]) -> None:
        """Look through the offsets of these topics, the first slice in this step."""
        is_idle = self._topic is None and not self._topics
        self._topics.extend(topics)
        if is_idle:
            self.go_on(step)

    def go_on(self, step: Step) -> None:
        """Remove a slice, and set the timer for the next if there is more."""
        left, written_before = SLICE_ITEMS_MAX, len(step.outcome.records)
        while left and (self._topic is not None or self._topics):
            if self._topic is None:
                self._open(self._topics.popleft())
            left -= self._remove(step, left)
        if len(step.outcome.records) > written_before:
            step.outcome.answer(self._deleted.on_tombstones, Answer())
        if self._topic is not None or self._topics:
            step.outcome.set_timer(OffsetSweepTimer(), SLICE_INTERVAL_MS)

    def _open(self, topic: str) -> None:
        self._topic = topic
        self._mark = self._deleted.mark_of(topic)
        self._removed = 0
        committed = (
            (group_id, index)
            for group_id in self._offsets.groups_of_topic(topic)
            for index in tuple(self._offsets.of_topic(group_id, topic))
        )
        pending = (
            (group_id, partition.partition)
            for group_id, partition in self._pending.of_topic(topic)
            if self._offsets.get(group_id, partition) is None
        )
        self._walk = chain(committed, pending)

    def _remove(self, step: Step, count_max: int) -> int:
        """Look at so many offsets of the open topic; returns how many it were, 1 at least."""
        assert self._topic is not None
        topic, looked_at = self._topic, 0
        for group_id, index in islice(self._walk, count_max):
            looked_at += 1
            if self._is_left_over(group_id, TopicPartition(topic, index)):
                step.outcome.write(OffsetRecord(group_id, TopicPartition(topic, index), None))
                self._removed += 1
        if looked_at < count_max:
            if self._mark is not None:
                step.outcome.answer(self._on_committed(topic, self._mark), Answer())
            if self._removed:
                logger.info("removed %d committed offsets of the deleted topic %s", self._removed, topic)
            self._topic = None
        return max(looked_at, 1)

    def _is_left_over(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether nothing that is here for a group in a partition is of the topic that has the name now."""
        found = self._pending.undecided(group_id, partition)
        committed = self._offsets.get(group_id, partition)
        if committed is not None:
            found.append(committed)
        return bool(found) and all(self._deleted.is_orphaned(partition.topic, each) for each in found)

    def _on_committed(self, topic: str, mark: int) -> Waiter:
        """Forget the deletion once the tombstones up to here are committed, not before: a shard that has to load again
        would read offsets that they were to remove.
        """

        def on_committed(answer: Answer) -> None:
            if answer.error is ErrorCode.NONE:
                self._deleted.discard(topic, mark)

        return on_committed
