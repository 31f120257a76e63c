"""Which replica to read a partition from, when its leader has named one in the reader's rack (KIP-392)."""

from collections.abc import Container

from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import Clock


class ReadReplicas:
    """What leaders have said, each for `max_age_ms`: then the leader is asked again, as racks and replicas change."""

    def __init__(self, clock: Clock, max_age_ms: int) -> None:
        self._clock = clock
        self._max_age_ms = max_age_ms
        self._named: dict[TopicPartition, tuple[int, int]] = {}

    def node(self, topic_partition: TopicPartition, brokers: Container[int]) -> int | None:
        """The broker to read from; None when that is the leader."""
        node_id, until_ms = self._named.get(topic_partition, (-1, 0))
        if node_id < 0:
            return None
        if node_id not in brokers or self._clock.monotonic_ms() >= until_ms:
            self.forget(topic_partition)
            return None
        return node_id

    def name(self, topic_partition: TopicPartition, node_id: int) -> None:
        """A leader has said to read from this broker."""
        self._named[topic_partition] = node_id, self._clock.monotonic_ms() + self._max_age_ms

    def forget(self, topic_partition: TopicPartition) -> None:
        """Reading from it failed."""
        self._named.pop(topic_partition, None)
