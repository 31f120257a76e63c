"""Which life of a topic something was seen of."""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from races.history import Life, Outage, Seen


class Lives:
    """All lives of all topics whose lives are known."""

    def __init__(self, lives: Iterable[Life]) -> None:
        self._by_topic: dict[str, list[Life]] = defaultdict(list)
        for life in lives:
            self._by_topic[life.topic].append(life)

    def knows(self, topic: str) -> bool:
        """Whether every life of a topic is written down."""
        return topic in self._by_topic

    def possible(self, seen: Seen) -> list[Life]:
        """The lives in which it can have happened."""
        return self.overlapping(seen.topic, seen.asked_at, seen.answered_at, seen.topic_id)

    def overlapping(self, topic: str, begin: float, end: float, topic_id: UUID | None = None) -> list[Life]:
        """The lives of a topic that a span of time touches, of those with this id when there is one."""
        return [
            life
            for life in self._by_topic.get(topic, ())
            if life.create_asked_at <= end
            and life.deleted_at >= begin
            and (topic_id is None or life.topic_id is None or life.topic_id == topic_id)
        ]

    def certain(self, seen: Seen) -> Life | None:
        """The only life in which it can have happened."""
        possible = self.possible(seen)
        return possible[0] if len(possible) == 1 else None


def is_surely_there(life: Life, seen: Seen, outages: Iterable[Outage]) -> bool:
    """Whether the topic was there, and its broker, all the while."""
    return (
        life.created_at <= seen.asked_at
        and life.delete_asked_at >= seen.answered_at
        and seen.partition < life.partition_count
        and not any(each.begun_at <= seen.answered_at and each.ended_at >= seen.asked_at for each in outages)
    )


def where(seen: Seen, life: Life | None = None) -> str:
    """What it is about, for people."""
    number = "" if life is None else f" (life {life.number})"
    by = " by id" if seen.topic_id is not None else ""
    return f"{seen.topic}-{seen.partition}{number}{by}"
