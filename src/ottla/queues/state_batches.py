"""Runs of records with one delivery state, as they are stored: in order, without overlap.

stored      [10..19 acquired] [20..29 done]
written               [15..24 available, 2 deliveries]
together    [10..14 acquired] [15..24 available, 2] [25..29 done]
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Records in one state; the numbers are those of `ottla.native.DeliveryLedger`."""

    first: int
    last: int
    state: int
    deliveries: int
    not_before_ms: int = 0
    """When records that were given back may be delivered again, ms since 1970; 0 for at once."""


def combine(stored: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """What is stored, with what was written later over it, from a start offset on; equal neighbours are one.

    It takes n log n steps for n batches written, in whatever order, and copies those of the stored that they do not
    touch.
    """
    later = list(written)
    in_order = sorted(later)
    if all(batch.last < behind.first for batch, behind in pairwise(in_order)):
        together = _spliced(stored, in_order)
    else:
        low = bisect_left(stored, min(batch.first for batch in later) - 1, key=_last)
        high = max(low, bisect_right(stored, max(batch.last for batch in later) + 1, key=_first))
        together = [*stored[:low], *_joined(_layered([*stored[low:high], *later])), *stored[high:]]
    del together[: bisect_left(together, start_offset, key=_last)]
    if together and together[0].first < start_offset:
        together[0] = together[0]._replace(first=start_offset)
    return tuple(together)


def together(written: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """What was written one after the other, with equal neighbours as one; the order stays.

    >>> [tuple(each) for each in together([StateBatch(0, 0, 2, 1), StateBatch(1, 4, 2, 1), StateBatch(5, 5, 0, 1)])]
    [(0, 4, 2, 1, 0), (5, 5, 0, 1, 0)]
    """
    return tuple(_joined(written))


def _first(batch: StateBatch) -> int:
    return batch.first


def _last(batch: StateBatch) -> int:
    return batch.last


def _spliced(stored: Sequence[StateBatch], written: Sequence[StateBatch]) -> list[StateBatch]:
    """As `_layered` and joined, of batches written that are in order and do not overlap: those stored in between are
    copied, however many there are.
    """
    found: list[StateBatch] = []
    lasts = [batch[1] for batch in stored]
    at = 0
    rest: StateBatch | None = None  # of a stored batch, what lies behind what was written over it
    for batch in written:
        first, last = batch.first, batch.last
        if rest is not None and rest.last < first:
            _append(found, rest)
            rest = None
        if rest is None:
            begin, at = at, bisect_left(lasts, first, at)
            _extend(found, stored[begin:at])
            if at < len(stored) and stored[at].first < first:
                rest, at = stored[at], at + 1
        if rest is not None and rest.first < first:
            _append(found, StateBatch(rest.first, first - 1, *rest[2:]))
        _append(found, batch)
        if rest is None or rest.last <= last:
            rest, at = None, bisect_right(lasts, last, at)
            if at < len(stored) and stored[at].first <= last:
                rest, at = stored[at], at + 1
        if rest is not None:
            rest = StateBatch(last + 1, *rest[1:])
    if rest is not None:
        _append(found, rest)
    _extend(found, stored[at:])
    return found


def _append(found: list[StateBatch], batch: StateBatch) -> None:
    """One more batch, joined to the last where they are alike."""
    if found and found[-1].last + 1 == batch.first and found[-1][2:] == batch[2:]:
        found[-1] = StateBatch(found[-1].first, *batch[1:])
    else:
        found.append(batch)


def _extend(found: list[StateBatch], batches: Sequence[StateBatch]) -> None:
    """More batches of which no neighbours are alike."""
    if batches:
        _append(found, batches[0])
        found += batches[1:]


def _layered(batches: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """The batches in the order of their offsets; where some overlap, the last of them in the sequence counts."""
    order = sorted(range(len(batches)), key=lambda index: batches[index].first)
    here: list[int] = []  # a heap of those that may have the offset, negative so that the last one is on top
    at = offset = 0
    while at < len(order) or here:
        if not here:
            offset = batches[order[at]].first
        while at < len(order) and batches[order[at]].first <= offset:
            heappush(here, -order[at])
            at += 1
        while here and batches[-here[0]].last < offset:
            heappop(here)
        if here:
            batch = batches[-here[0]]
            last = batch.last
            if at < len(order):
                last = min(last, batches[order[at]].first - 1)
            yield batch._replace(first=offset, last=last)
            offset = last + 1


def _joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    found: list[StateBatch] = []
    before: StateBatch | None = None
    last = 0  # of what `before` and those joined to it cover
    for batch in batches:
        if before is not None and last + 1 == batch.first and before[2:] == batch[2:]:
            last = batch.last
            continue
        if before is not None:
            found.append(before if before.last == last else before._replace(last=last))
        before, last = batch, batch.last
    if before is not None:
        found.append(before if before.last == last else before._replace(last=last))
    return found
