"""A run of requests of one connection, received together."""

from typing import Protocol


class Turn(Protocol):
    """Who gathers what requests want, to do it once for all of them."""

    def begin_turn(self) -> None:
        """The requests are handed out now."""
        ...

    def end_turn(self) -> None:
        """All of them have been; answers that are given now leave together with those given before."""
        ...


class NoTurn:
    """Nobody gathers anything."""

    def begin_turn(self) -> None:
        """Nothing to do."""

    def end_turn(self) -> None:
        """Nothing to do."""
