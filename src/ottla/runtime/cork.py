"""Holding work back while more of it arrives, to do it in one go (as TCP_CORK and the streams of Node.js do)."""

from collections.abc import Sequence
from typing import Protocol


class Cork(Protocol):
    """Who gathers what a run of requests wants: those of one connection that were received together."""

    def cork(self) -> None:
        """The requests are handed out now: gather."""
        ...

    def uncork(self) -> None:
        """All of them have been: go, or wait for what others want in this turn of the event loop. Answers that are
        given meanwhile leave together with those given before.
        """
        ...

    def go(self) -> None:
        """`uncork`, and nobody else is expected to want anything in this turn: everything goes now."""
        ...


class NoCork:
    """Nobody gathers anything."""

    def cork(self) -> None:
        """Nothing to do."""

    def uncork(self) -> None:
        """Nothing to do."""

    def go(self) -> None:
        """Nothing to do."""


class Corks:
    """Several that gather, told together."""

    __slots__ = ("_corks",)

    def __init__(self, corks: Sequence[Cork]) -> None:
        self._corks = corks

    def cork(self) -> None:
        """All of them gather."""
        for each in self._corks:
            each.cork()

    def uncork(self) -> None:
        """All of them go."""
        for each in self._corks:
            each.uncork()

    def go(self) -> None:
        """All of them go now."""
        for each in self._corks:
            each.go()
