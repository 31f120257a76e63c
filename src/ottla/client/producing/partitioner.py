"""Which partition a record goes to when the caller does not say."""

from typing import Protocol

from ottla.native import murmur2
from ottla.runtime.rng import Rng

_POSITIVE = 0x7FFFFFFF


class Partitioner(Protocol):
    """Chooses partitions for the records of one producer, called once for each record in the order they are sent."""

    def partition(self, topic: str, key: bytes | None, partition_count: int, record_bytes: int) -> int:
        """A number from 0 to `partition_count` - 1. `record_bytes` is about what the record takes in a batch."""
        ...


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key: Kafka's murmur2, so that all clients that use it agree.

    >>> partition_for_key(b"21", 10), partition_for_key(b"foobar", 10)
    (0, 6)
    """
    return (murmur2(key) & _POSITIVE) % partition_count


class DefaultPartitioner:
    """By the hash of the key; records without one stick to a random partition until a batch is full (KIP-794).

    This fills batches one after the other instead of many at a time, and over time distributes bytes evenly.
    """

    __slots__ = ("_rng", "_sticky", "_switch_bytes")

    def __init__(self, rng: Rng, switch_bytes: int) -> None:
        self._rng = rng
        self._switch_bytes = switch_bytes
        self._sticky: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, key: bytes | None, partition_count: int, record_bytes: int) -> int:
        """See `Partitioner.partition`."""
        if key is not None:
            return (murmur2(key) & _POSITIVE) % partition_count
        chosen, bytes_left = self._sticky.get(topic, (partition_count, 0))
        if bytes_left <= 0 or chosen >= partition_count:
            chosen, bytes_left = self._rng.randbelow(partition_count), self._switch_bytes
        self._sticky[topic] = (chosen, bytes_left - record_bytes)
        return chosen
