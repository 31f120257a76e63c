"""Waiting for several answers that come in any order, to make one response of them."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Gather(Generic[T]):
    """Collects `count` answers and hands them on together, in the order of their places.

    >>> gather = Gather(2, print)
    >>> second, first = gather.place(1), gather.place(0)
    >>> second("b")
    >>> first("a")
    ['a', 'b']
    """

    __slots__ = ("_answers", "_missing", "_on_complete")

    def __init__(self, count: int, on_complete: Callable[[list[T]], None]) -> None:
        """With a count of 0 `on_complete` is called at once."""
        self._answers: list[T | None] = [None] * count
        self._missing = count
        self._on_complete = on_complete
        if count == 0:
            on_complete([])

    def place(self, index: int) -> Callable[[T], None]:
        """Where the answer of that place is to be put, once."""

        def put(answer: T) -> None:
            self._answers[index] = answer
            self._missing -= 1
            if self._missing == 0:
                self._on_complete([each for each in self._answers if each is not None])

        return put
