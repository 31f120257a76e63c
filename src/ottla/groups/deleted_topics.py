"""Whose offsets are left over from a topic that is gone.

An offset is committed to a topic, not to its name: with it is kept the id of the topic (OffsetCommitValue version 4).
What carries another id than the topic of that name has now was committed to an earlier one, and nobody is shown it,
from the moment the deletion is known, however long it takes to write the tombstones.

Records without an id (Apache Kafka writes them for clients that name topics by name, and version 1 has no place for
one) belong to whichever topic has the name when they are read. Of these the names are remembered, from the deletion
until no such record is left in the log.
"""

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from ottla.coordination.outcome import Answer
from ottla.groups.records import CommittedOffset
from ottla.model.error_code import ErrorCode

SWEEP_DELAY_MS_MIN: Final = 1_000
SWEEP_DELAY_MS_MAX: Final = 60_000
"""A sweep whose tombstones the log refused is tried again after these times, doubling from one to the other."""

TopicIdOf = Callable[[str], UUID | None]
"""The id of the topic that has a name now; None when there is none."""


class DeletedTopics:
    """The deleted topics of which one partition of the offsets topic may still hold offsets.

    It outlives the shard: what is deleted while a shard loads, or before it loads again, is known to the next.
    """

    __slots__ = ("_count", "_marks", "id_of", "sweep_delay_ms")

    def __init__(self, id_of: TopicIdOf) -> None:
        self.id_of = id_of
        """The id of the topic that has a name now."""
        self.sweep_delay_ms = 0
        """How long the sweep after the next load waits: while a disk is full, every tombstone costs a load."""
        self._marks: dict[str, int] = {}
        self._count = 0

    def add(self, names: Iterable[str]) -> None:
        """Topics of these names are gone; others may get the names at any time."""
        self._count += 1
        for name in names:
            self._marks[name] = self._count

    @property
    def names(self) -> tuple[str, ...]:
        """The names of deleted topics of which records may be left."""
        return tuple(self._marks)

    def mark_of(self, name: str) -> int | None:
        """What to give to `discard` when no offset of the topic is left; None for a name that was not deleted."""
        return self._marks.get(name)

    def discard(self, name: str, mark: int | None) -> None:
        """Nothing in the log is left of the topic that was deleted, unless another of the name went after `mark`."""
        if mark is not None and self._marks.get(name) == mark:
            del self._marks[name]

    def on_tombstones(self, answer: Answer) -> None:
        """Tombstones of a sweep are committed, or were refused."""
        if answer.error is ErrorCode.NONE:
            self.sweep_delay_ms = 0
        else:
            self.sweep_delay_ms = min(max(2 * self.sweep_delay_ms, SWEEP_DELAY_MS_MIN), SWEEP_DELAY_MS_MAX)

    def is_orphaned(self, topic: str, committed: CommittedOffset) -> bool:
        """Whether an offset was committed to a topic that is gone."""
        current = self.id_of(topic)
        if current is None:
            return True
        return topic in self._marks if committed.topic_id is None else committed.topic_id != current
