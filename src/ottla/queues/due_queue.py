"""The records of a partition that are due, in the order in which they are moved; some can be put back."""

from collections.abc import Sequence

from ottla.native import DelayIndex

Due = tuple[int, int]
"""When a record is due, and its offset."""


class DueQueue:
    """An index, and what was taken from it and put back. Pure: time is an argument."""

    def __init__(self, index: DelayIndex) -> None:
        self.index = index
        self._back: list[Due] = []

    def __len__(self) -> int:
        return len(self.index) + len(self._back)

    def next_due(self) -> int | None:
        """When the next record is due; None when none waits in memory."""
        first = self.index.next_due()
        if self._back:
            return self._back[0][0] if first is None else min(first, self._back[0][0])
        return first

    def oldest(self) -> int | None:
        """The first offset of what waits, far ones included; None when nothing does. Looks at every record."""
        oldest = self.index.oldest()
        back = min((offset for _, offset in self._back), default=None)
        if oldest is None or back is None:
            return back if oldest is None else oldest
        return min(oldest, back)

    def take(self, now_ms: int, moved: Due, records_max: int) -> list[Due]:
        """Up to `records_max` records that are due, the first ones; and all up to `moved`, however many there are."""
        back, self._back = self._back, []
        until = max(moved, back[-1]) if back else moved
        found = sorted([*back, *self.index.pop(now_ms, *until, 0)])
        if len(found) < records_max:
            found += self.index.pop(now_ms, *until, records_max - len(found))
            return found
        late = sum(each <= moved for each in found)
        self.put_back(found[max(records_max, late) :])
        return found[: max(records_max, late)]

    def put_back(self, records: Sequence[Due]) -> None:
        """Some were not moved: the last ones of what `take` gave, in order."""
        self._back = [*records, *self._back]
