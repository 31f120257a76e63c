"""Ids in order, of which any may come and go: what is pending in a group may be a million of them.

blocks   [ 5-0 5-1 6-0 ][ 7-0 .. 9-2 ][ 9-3 .. ]      up to 1,024 ids each, none empty
lasts    [ 6-0         , 9-2         , 12-0    ]      the last id of each
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import lt
from typing import Final

BLOCK_IDS: Final = 512
"""A block with twice as many is halved."""
BLOCKS_FREED_AT_ONCE: Final = 50
TOGETHER_MIN: Final = 8
"""So many ids that come into a block, or go, are dealt with as one: the block is made anew."""


class SortedIds:
    """Each id is in it once.

    >>> ids = SortedIds()
    >>> for each in (7, 3, 5, 3):
    ...     ids.add(each)
    >>> ids.remove(5)
    >>> list(ids.between(0, 9)), ids.first, ids.last, len(ids)
    ([3, 7], 3, 7, 2)
    """

    __slots__ = ("_blocks", "_count", "_lasts")

    def __init__(self) -> None:
        self._blocks: list[list[int]] = []
        self._lasts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> int:
        """The smallest, of some."""
        return self._blocks[0][0]

    @property
    def last(self) -> int:
        """The largest, of some."""
        return self._lasts[-1]

    def add(self, entry_id: int) -> None:
        """An id comes, unless it is there."""
        blocks, lasts = self._blocks, self._lasts
        at = bisect_left(lasts, entry_id)
        if at == len(lasts):
            if not blocks or len(blocks[-1]) >= BLOCK_IDS:
                blocks.append([])
                lasts.append(entry_id)
            blocks[-1].append(entry_id)
            lasts[-1] = entry_id
            self._count += 1
            return
        block = blocks[at]
        within = bisect_left(block, entry_id)
        if block[within] == entry_id:
            return
        block.insert(within, entry_id)
        self._count += 1
        if len(block) > 2 * BLOCK_IDS:
            blocks[at : at + 1] = block[:BLOCK_IDS], block[BLOCK_IDS:]
            lasts.insert(at, block[BLOCK_IDS - 1])

    def add_all(self, ids: list[int]) -> None:
        """Ids come, those that are there stay."""
        lasts = self._lasts
        if not all(map(lt, ids, ids[1:])):
            ids = sorted(set(ids))
        at = 0
        while at < len(ids):
            index = bisect_left(lasts, ids[at])
            if index == len(lasts):
                self._extend(ids[at:])
                return
            end = bisect_right(ids, lasts[index], at)
            if end - at < TOGETHER_MIN:
                for entry_id in ids[at:end]:
                    self.add(entry_id)
            else:
                self._merge(index, ids[at:end])
            at = end

    def _extend(self, ids: list[int]) -> None:
        """Ids come behind all others."""
        blocks, lasts = self._blocks, self._lasts
        self._count += len(ids)
        at = 0
        while at < len(ids):
            if not blocks or len(blocks[-1]) >= BLOCK_IDS:
                blocks.append([])
                lasts.append(0)
            some = ids[at : at + BLOCK_IDS]
            blocks[-1] += some
            lasts[-1] = some[-1]
            at += len(some)

    def _merge(self, index: int, ids: list[int]) -> None:
        """Ids come into a block, none of them behind its last."""
        blocks, lasts = self._blocks, self._lasts
        block = list(dict.fromkeys(sorted([*blocks[index], *ids])))
        self._count += len(block) - len(blocks[index])
        parts = [block]
        if len(block) > 2 * BLOCK_IDS:
            parts = [block[at : at + BLOCK_IDS] for at in range(0, len(block), BLOCK_IDS)]
        blocks[index : index + 1] = parts
        lasts[index : index + 1] = [each[-1] for each in parts]

    def remove_all(self, ids: list[int]) -> None:
        """Ids that are there go, each named once."""
        if not all(map(lt, ids, ids[1:])):
            ids = sorted(ids)
        at = 0
        while at < len(ids):
            index = bisect_left(self._lasts, ids[at])
            end = bisect_right(ids, self._lasts[index], at)
            if end - at < TOGETHER_MIN:
                for entry_id in ids[at:end]:
                    self.remove(entry_id)
            else:
                self._cut(index, ids[at:end])
            at = end

    def _cut(self, index: int, ids: list[int]) -> None:
        """Ids of a block go."""
        block = self._blocks[index]
        within = bisect_left(block, ids[0])
        if block[within : within + len(ids)] == ids:
            del block[within : within + len(ids)]
        else:
            going = set(ids)
            block = self._blocks[index] = [each for each in block if each not in going]
        self._count -= len(ids)
        if not block:
            del self._blocks[index], self._lasts[index]
        else:
            self._lasts[index] = block[-1]

    def remove(self, entry_id: int) -> None:
        """An id that is there goes."""
        at = bisect_left(self._lasts, entry_id)
        block = self._blocks[at]
        within = bisect_left(block, entry_id)
        assert block[within] == entry_id
        del block[within]
        self._count -= 1
        if not block:
            del self._blocks[at], self._lasts[at]
        else:
            self._lasts[at] = block[-1]

    def dismantle(self) -> Iterator[None]:
        """For ids that nobody needs: let go of them a part at a time."""
        while self._blocks:
            del self._blocks[-BLOCKS_FREED_AT_ONCE:], self._lasts[-BLOCKS_FREED_AT_ONCE:]
            yield

    def between(self, first: int, last: int) -> Iterator[int]:
        """The ids of an interval. Some may come and go meanwhile: whether these are given is open."""
        while (at := bisect_left(self._lasts, first)) < len(self._lasts):
            block = self._blocks[at]
            for entry_id in block[bisect_left(block, first) :]:
                if entry_id > last:
                    return
                yield entry_id
            first = entry_id + 1
