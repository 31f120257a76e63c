"""Holding work back while more of it arrives, to do it in one go (as TCP_CORK and the streams of Node.js do).

requests are handed out    cork, ..., uncork      what they want goes together
what they wanted is done   gather, ..., send      their answers go together
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol


class Answers(Protocol):
    """Who gathers the answers that come of what is done."""

    def gather(self) -> None:
        """Several things are done, and those who wanted them are told now: gather what they answer."""
        ...

    def send(self) -> None:
        """All of them have been told: send. Once for each `gather`."""
        ...


class Cork(Protocol):
    """Who gathers what a run of requests wants: those of one connection that were received together."""

    def cork(self) -> None:
        """The requests are handed out now: gather."""
        ...

    def flush_now(self) -> None:
        """What is wanted next and takes long is all that this run wants: it need not wait for the end of the run. Until
        that end, or the next `cork`.
        """
        ...

    def defer(self, call: Callable[[], None]) -> None:
        """Call it once, when the run is over and before it goes: what it wants goes with the run. Where no run is under
        way, at the end of the event loop's turn.
        """
        ...

    def uncork(self) -> None:
        """All of them have been: go, or wait for what others want in this turn of the event loop. Answers that are
        given meanwhile leave together with those given before.
        """
        ...

    def uncork_now(self) -> None:
        """`uncork`, and nobody else is expected to want anything in this turn: everything goes now."""
        ...

    def add_answers(self, answers: Answers) -> None:
        """Have `answers` gather while those are told whose work is done."""
        ...

    def remove_answers(self, answers: Answers) -> None:
        """They gather no more."""
        ...


class NoCork:
    """Nobody gathers anything."""

    def cork(self) -> None:
        """Nothing to do."""

    def defer(self, call: Callable[[], None]) -> None:
        """There is no run."""
        asyncio.get_running_loop().call_soon(call)

    def uncork(self) -> None:
        """Nothing to do."""

    def flush_now(self) -> None:
        """Nothing to do."""

    def uncork_now(self) -> None:
        """Nothing to do."""

    def add_answers(self, answers: Answers) -> None:
        """Nothing to do."""

    def remove_answers(self, answers: Answers) -> None:
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

    def defer(self, call: Callable[[], None]) -> None:
        """Before the first of them goes."""
        self._corks[0].defer(call)

    def uncork(self) -> None:
        """All of them go."""
        for each in self._corks:
            each.uncork()

    def flush_now(self) -> None:
        """The one of them that is wanted hurries."""
        for each in self._corks:
            each.flush_now()

    def uncork_now(self) -> None:
        """All of them go now."""
        for each in self._corks:
            each.uncork_now()

    def add_answers(self, answers: Answers) -> None:
        """Of all of them."""
        for each in self._corks:
            each.add_answers(answers)

    def remove_answers(self, answers: Answers) -> None:
        """Of all of them."""
        for each in self._corks:
            each.remove_answers(answers)
