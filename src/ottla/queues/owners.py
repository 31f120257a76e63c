"""Who holds records of a share partition: members by name, and their numbers in the ledger."""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.queues.acknowledgements import Run

NOT_HELD: Final = 0
NOBODY: Final = 1
"""The owner that holds records for the moment in which they are found not to be delivered."""
HOLDS_NOTHING: Final = 2
"""The owner that never holds a record: members that only acknowledge."""
_FIRST: Final = 3

OnTimedOut = Callable[[Sequence[Run]], None]
"""Told which of a reader's records were released because their time was up."""


class Owners:
    """Of one partition. A member that comes again after it was forgotten is another owner."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._on_timed_out: dict[int, OnTimedOut] = {}
        self._next = _FIRST

    @property
    def members(self) -> list[str]:
        """The members that are known."""
        return list(self._numbers)

    def number(self, member_id: str) -> int:
        """The number of a member, a new one if it has none yet."""
        number = self._numbers.get(member_id)
        if number is None:
            number = self._numbers[member_id] = self._next
            self._next += 1
        return number

    def known_number(self, member_id: str) -> int:
        """The number of a member; that of whoever holds nothing if it has none."""
        return self._numbers.get(member_id, HOLDS_NOTHING)

    def member(self, number: int) -> str | None:
        """The member with a number, if it is still there."""
        return next((member_id for member_id, each in self._numbers.items() if each == number), None)

    def forget(self, member_id: str) -> int | None:
        """A member is gone. Returns the number that it had; None if it had none."""
        number = self._numbers.pop(member_id, None)
        if number is not None:
            self._on_timed_out.pop(number, None)
        return number

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader when its time is up."""
        self._on_timed_out[self.number(member_id)] = on_timed_out

    def tell_timed_out(self, number: int, released: Sequence[Run]) -> None:
        """The time of these records was up."""
        on_timed_out = self._on_timed_out.get(number)
        if on_timed_out is not None:
            on_timed_out(released)
