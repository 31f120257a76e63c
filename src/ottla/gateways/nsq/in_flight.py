"""The messages that one client has: when each was delivered, and as which attempt, by partition and offset."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.gateways.nsq.message_id import OFFSET_BITS, OFFSET_MAX


class Delivered(NamedTuple):
    """When a message was delivered, and how often it has been."""

    at_ms: int
    attempts: int


class InFlight:
    """Of one client."""

    def __init__(self) -> None:
        self._delivered: dict[int, dict[int, Delivered]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._delivered.values()))

    def add(self, partition: int, runs: Iterable[tuple[int, int, int]], now_ms: int) -> int:
        """Runs of messages are delivered; how many they are."""
        delivered = self._delivered.setdefault(partition, {})
        count = 0
        for first, last, attempts in runs:
            delivered.update(dict.fromkeys(range(first, last + 1), Delivered(now_ms, attempts)))
            count += last - first + 1
        return count

    def delivered_ms(self, partition: int, offset: int) -> int | None:
        """When a message was delivered; None for one that the client does not have."""
        delivered = self._delivered.get(partition, {}).get(offset)
        return None if delivered is None else delivered.at_ms

    def take(self, partition: int, offset: int) -> bool:
        """The client has a message no longer; whether it had it."""
        return self._delivered.get(partition, {}).pop(offset, None) is not None

    def take_timed_out(self, partition: int, first: int, last: int, attempts: int) -> int:
        """The time of messages is up that were delivered so often; how many of them the client had. Those that came to
        it again since, it keeps.
        """
        delivered = self._delivered.get(partition, {})
        are_few = last - first < len(delivered)
        gone = [
            offset
            for offset in (range(first, last + 1) if are_few else tuple(delivered))
            if first <= offset <= last and offset in delivered and delivered[offset].attempts <= attempts
        ]
        for offset in gone:
            del delivered[offset]
        return len(gone)

    def take_many(self, numbers: Sequence[int]) -> tuple[dict[int, list[int]], list[int]]:
        """The same of messages by the numbers of their ids: the offsets of those that it had, by partition, and the
        numbers of the others.
        """
        had: dict[int, list[int]] = {}
        others = []
        for number in numbers:
            partition, offset = number >> OFFSET_BITS, number & OFFSET_MAX
            delivered = self._delivered.get(partition)
            if delivered is None or delivered.pop(offset, None) is None:
                others.append(number)
            elif partition in had:
                had[partition].append(offset)
            else:
                had[partition] = [offset]
        return had, others

    def clear(self) -> None:
        """The client has nothing any more."""
        self._delivered.clear()

    def clear_partition(self, partition: int) -> None:
        """It has nothing of a partition any more."""
        self._delivered.pop(partition, None)
