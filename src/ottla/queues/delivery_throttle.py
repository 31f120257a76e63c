"""Records that fail again and again are delivered in smaller and smaller parts, the last time alone, as in Kafka.

A record that cannot be processed fails the records that are delivered with it. From half of the deliveries that a
record may have, a fetch has at most one part of the records that were first acquired together:

    500 records, at most 5 deliveries      deliveries before    0    1    2    3    4
                                           of a fetch         500  500  500  250    1
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.native import BatchInfo, DeliveryLedger

BATCHES_MAX: Final = 4096
"""Acquired batches that are remembered. Of older ones each run of records with equal deliveries is a batch."""

Deliverable = tuple[int, int, int]
"""First and last offset of records that can be delivered, and how often each of them was."""


class Portion(NamedTuple):
    """What a fetch may have: records up to an offset, and so many of them; None for as many as it asks for."""

    last_offset: int
    records_max: int | None

    def limits(self, max_records: int, *, exact: bool) -> tuple[int, bool]:
        """How many records a fetch gets that asks for so many, and whether there may be no more."""
        if self.records_max is None:
            return max_records, exact
        return min(max_records, self.records_max) if exact else self.records_max, True


WHOLE: Final = Portion((1 << 63) - 1, None)


class AcquiredBatches:
    """Which records were first acquired together. Batches are added in the order of their offsets."""

    def __init__(self, batches: Iterable[tuple[int, int]] = ()) -> None:
        self._batches: list[tuple[int, int]] = list(batches)[-BATCHES_MAX:]

    @property
    def count(self) -> int:
        """How many are known."""
        return len(self._batches)

    def add(self, first: int, last: int) -> None:
        """Records are acquired for the first time. What lies in the last batch already is left as it is."""
        if self._batches:
            first = max(first, self._batches[-1][1] + 1)
        if first <= last:
            self._batches.append((first, last))

    def add_new(self, read: Sequence[BatchInfo], end_before: int, end_offset: int, batch_size: int) -> None:
        """What was acquired for the first time of batches of the log, from one end of the ledger to the next.

        Neighbours are together as long as they have fewer than `batch_size` records.
        """
        new = [
            (max(batch.base_offset, end_before), batch.last_offset, 1)
            for batch in read
            if batch.last_offset >= end_before and batch.base_offset < end_offset
        ]
        for first, last, _ in joined(new, batch_size):
            self.add(first, last)

    def forget_below(self, offset: int) -> None:
        """Batches that end below an offset are done."""
        at = bisect_right(self._batches, (offset,))
        if at and self._batches[at - 1][1] >= offset:
            at -= 1
        del self._batches[: max(at, len(self._batches) - BATCHES_MAX)]

    def around(self, first: int, last: int) -> tuple[int, int]:
        """The batch that a record at `first` belongs to; `first` and `last` where none is known."""
        at = bisect_right(self._batches, (first, 1 << 63))
        if at and self._batches[at - 1][1] >= first:
            return self._batches[at - 1]
        return first, last


def throttle_from(deliveries_max: int) -> int:
    """After how many deliveries records are delivered in parts."""
    return max(2, (deliveries_max + 1) // 2)


def portion(deliverable: Iterable[Deliverable], batches: AcquiredBatches, deliveries_max: int) -> Portion:
    """How much of these records one fetch may have. The records come in order."""
    if deliveries_max <= 2:
        return WHOLE
    threshold = throttle_from(deliveries_max)
    first_of_all, before = -1, 0
    runs = iter(deliverable)
    for first, last, deliveries in runs:
        if first_of_all < 0:
            first_of_all = first
        if deliveries < threshold:
            before += last - first + 1
            continue
        batch_first, batch_last = batches.around(first, last)
        if first_of_all < batch_first:
            return Portion(batch_first - 1, None)
        if deliveries >= deliveries_max - 1:
            return Portion(first - 1, None) if before else Portion(first, 1)
        end = next((run[0] - 1 for run in runs if run[2] >= deliveries_max - 1), batch_last)
        part = (batch_last - batch_first + 1) >> (deliveries - threshold + 1)
        return Portion(min(end, batch_last), max(1, part, before + 1))
    return WHOLE


def delivered_before(ledger: DeliveryLedger, offset: int, last: int) -> Iterator[Deliverable]:
    """Runs of records from an offset up to `last` that were delivered before and can be again."""
    while (offset := ledger.next_deliverable(offset)) < ledger.end_offset and offset <= last:
        ((first, run_last, _, deliveries),) = ledger.runs(offset, 1)
        yield first, min(run_last, last), deliveries
        offset = run_last + 1


def joined(runs: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int]]:
    """Neighbours that were delivered as often are one, as long as it has fewer than `size` records."""
    found: list[tuple[int, int, int]] = []
    for first, last, count in runs:
        if found and found[-1][1] + 1 == first and found[-1][2] == count and first - found[-1][0] < size:
            found[-1] = found[-1][0], last, count
        else:
            found.append((first, last, count))
    return found
