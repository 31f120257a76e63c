"""A coroutine whose first step is done before anybody knows whether it needs a task."""

from collections.abc import Coroutine, Generator
from typing import Any


class Begun:
    """The rest of a coroutine, to be awaited where it has to wait for something; of what it returns nobody hears.

    It may not ask what task it runs in: none, to begin with.
    """

    __slots__ = ("_coroutine", "_waits_for", "is_done")

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Do the first step; what it raises comes here."""
        self._coroutine = coroutine
        self._waits_for: object = None
        self.is_done = False
        """Whether there is nothing to await."""
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration:
            self.is_done = True

    def __await__(self) -> Generator[Any, Any, None]:
        coroutine, waits_for = self._coroutine, self._waits_for
        try:
            while True:
                try:
                    yield waits_for
                except GeneratorExit:
                    raise
                except BaseException as error:
                    waits_for = coroutine.throw(error)
                else:
                    waits_for = coroutine.send(None)
        except StopIteration:
            return
        finally:
            coroutine.close()
