"""Which priority is served next: each in proportion to its weight, as long as all of them have records.

    weights 1, 4, 16 of priorities 0, 1, 2      of 21 records 1 has priority 0, 4 have 1 and 16 have 2

Each lane has a clock that runs the slower the greater its weight is (stride scheduling). The lane whose clock would be
behind the others after one record more is served. So a lane with records waits at most for its share of all weights,
and for what one reader is given at once. A lane that was empty does not catch up on what it did not use.
"""

from collections.abc import Sequence
from typing import Final

_SCALE: Final = 1_000_000


class Lanes:
    """Of one share partition. Pure."""

    def __init__(self) -> None:
        self._weights: tuple[int, ...] = ()
        self._clocks: list[int] = []
        self._waited: set[int] = set()
        self._now = 0

    def next(self, weights: tuple[int, ...], waiting: Sequence[int]) -> int:
        """The lane to serve, of those that have records. There is at least one."""
        if weights != self._weights:
            self._weights, self._clocks, self._now = weights, [0] * len(weights), 0
            self._waited = set()
        for lane in waiting:
            if lane not in self._waited:
                self._clocks[lane] = max(self._clocks[lane], self._now)
        self._waited = set(waiting)
        lane = min(waiting, key=lambda lane: (self._clocks[lane] + _SCALE // weights[lane], -lane))
        self._now = self._clocks[lane]
        return lane

    def took(self, lane: int, count: int) -> None:
        """So many records of a lane were delivered."""
        self._clocks[lane] += count * _SCALE // self._weights[lane]
