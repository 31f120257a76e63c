"""A partition of a topic, by name."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition: the topic's name and the partition's number, from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`topic-partition`, which is also the name of its directory."""
        return f"{self.topic}-{self.partition}"
