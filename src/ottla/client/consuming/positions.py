"""What a consumer is assigned, where it stands in each partition, and what was fetched ahead. No I/O here."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ottla.client.consuming.fetch import FetchedBatches
from ottla.model.topic_partition import TopicPartition


class PartitionPosition(Struct):
    """One assigned partition.

    ```
      next_offset            fetch_offset
      |  waiting, not polled  |  to be fetched next
    ```

    Both are None until the start position is known. `generation` changes with every seek. A response to a request of
    an earlier generation is dropped.
    """

    topic_partition: TopicPartition
    next_offset: int | None = None
    fetch_offset: int | None = None
    generation: int = 0
    paused: bool = False
    fetching: bool = False
    retry_at_ms: int = 0
    high_watermark: int | None = None
    """Of the newest answer; with read_committed the last stable offset, which is as far as can be read."""
    waiting: deque[FetchedBatches] = field(default_factory=deque)

    def seek(self, offset: int | None) -> None:
        """Go on at an offset; None: find out where to begin."""
        self.next_offset = self.fetch_offset = offset
        self.generation += 1
        self.fetching = False
        self.waiting.clear()

    def take(self) -> FetchedBatches:
        """The answer that waits first, which counts as read from here on."""
        answer = self.waiting.popleft()
        self.next_offset = self.waiting[0].offset if self.waiting else self.fetch_offset
        return answer

    @property
    def lag(self) -> int | None:
        """Records between the position and the end, as far as known."""
        if self.high_watermark is None or self.next_offset is None:
            return None
        return max(self.high_watermark - self.next_offset, 0)


class Positions:
    """All assigned partitions. Partitions take turns: what was polled goes to the back."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, PartitionPosition] = {}

    def __iter__(self) -> Iterator[PartitionPosition]:
        return iter(self._positions.values())

    def __len__(self) -> int:
        return len(self._positions)

    def get(self, topic_partition: TopicPartition) -> PartitionPosition | None:
        """The position in a partition, None when it is not assigned."""
        return self._positions.get(topic_partition)

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Exactly these from now on; those that were assigned before keep their positions."""
        before = self._positions
        self._positions = {each: before.get(each) or PartitionPosition(each) for each in topic_partitions}

    def partitions(self) -> list[TopicPartition]:
        """What is assigned."""
        return list(self._positions)

    def without_position(self) -> list[TopicPartition]:
        """The partitions of which is not known where to begin."""
        return [position.topic_partition for position in self if position.next_offset is None]

    def fetchable(self, ahead_max: int, now_ms: int) -> list[PartitionPosition]:
        """The partitions of which more should be fetched now."""
        return [
            position
            for position in self
            if position.fetch_offset is not None
            and not position.paused
            and not position.fetching
            and position.retry_at_ms <= now_ms
            and len(position.waiting) < ahead_max
        ]

    def next_waiting(self) -> PartitionPosition | None:
        """A partition that has something to poll; it goes to the back."""
        for topic_partition, position in self._positions.items():
            if position.waiting and not position.paused:
                del self._positions[topic_partition]
                self._positions[topic_partition] = position
                return position
        return None
