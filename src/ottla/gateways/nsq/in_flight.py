"""The messages that one client has: when each was delivered, by partition and offset."""

from collections.abc import Iterable, Sequence

from ottla.gateways.nsq.message_id import OFFSET_BITS, OFFSET_MAX


class InFlight:
    """Of one client."""

    def __init__(self) -> None:
        self._delivered_ms: dict[int, dict[int, int]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._delivered_ms.values()))

    def add(self, partition: int, runs: Iterable[tuple[int, int, int]], now_ms: int) -> int:
        """Runs of messages are delivered; how many they are."""
        delivered_ms = self._delivered_ms.setdefault(partition, {})
        count = 0
        for first, last, _ in runs:
            delivered_ms.update(dict.fromkeys(range(first, last + 1), now_ms))
            count += last - first + 1
        return count

    def delivered_ms(self, partition: int, offset: int) -> int | None:
        """When a message was delivered; None for one that the client does not have."""
        return self._delivered_ms.get(partition, {}).get(offset)

    def take(self, partition: int, offset: int) -> bool:
        """The client has a message no longer; whether it had it."""
        return self._delivered_ms.get(partition, {}).pop(offset, None) is not None

    def take_many(self, numbers: Sequence[int]) -> tuple[dict[int, list[int]], list[int]]:
        """The same of messages by the numbers of their ids: the offsets of those that it had, by partition, and the
        numbers of the others.
        """
        had: dict[int, list[int]] = {}
        others = []
        for number in numbers:
            partition, offset = number >> OFFSET_BITS, number & OFFSET_MAX
            delivered_ms = self._delivered_ms.get(partition)
            if delivered_ms is None or delivered_ms.pop(offset, None) is None:
                others.append(number)
            elif partition in had:
                had[partition].append(offset)
            else:
                had[partition] = [offset]
        return had, others

    def clear(self) -> None:
        """The client has nothing any more."""
        self._delivered_ms.clear()

    def clear_partition(self, partition: int) -> None:
        """It has nothing of a partition any more."""
        self._delivered_ms.pop(partition, None)
