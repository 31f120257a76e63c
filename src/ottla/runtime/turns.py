"""Turns of the event loop, for tasks with much to compute: everybody else gets on in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

ITEMS_PER_TURN: Final = 200
"""Topics or partitions of an answer made in one turn: half a millisecond; a produce beside it needs a few turns."""

T = TypeVar("T")


async def next_turn() -> None:
    """Return in the next turn of the event loop, after what is due by then."""
    await asyncio.sleep(0)


class Pace:
    """Says when enough was done for one turn.

    >>> pace = Pace(3)
    >>> [pace.is_enough() for _ in range(7)]
    [False, False, True, False, False, True, False]
    """

    __slots__ = ("_items_per_turn", "_left")

    def __init__(self, items_per_turn: int = ITEMS_PER_TURN) -> None:
        self._left = self._items_per_turn = items_per_turn

    def is_enough(self) -> bool:
        """Count one item; True when it was the last for this turn."""
        self._left -= 1
        if self._left:
            return False
        self._left = self._items_per_turn
        return True


async def in_turns(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """All items, some in each turn."""
    for start in range(0, len(items), ITEMS_PER_TURN):
        if start:
            await next_turn()
        yield items[start : start + ITEMS_PER_TURN]
