"""One lock for the name of each log: who changes which files are there under that name holds it.

    create  [orders-0 orders-1]
    delete             [orders-1]          waits for the creation, which waits for nobody but who holds one of its two
    retention   [users-0]                  waits for neither

It goes by the name and not by the log, because a log that is deleted and the next of its name share a directory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final

from ottla.model.topic_partition import TopicPartition

Turn = asyncio.Future[None]


class LogLocks:
    """Belongs to the event loop. Who waits gets the lock in the order of coming.

    Whoever needs several takes them in one `hold`, which takes them in the order of their names, so nobody waits in a
    circle; who holds any must not ask for more.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: Final[dict[TopicPartition, deque[Turn]]] = {}
        """Who waits for each lock that is held."""

    @property
    def held(self) -> Collection[TopicPartition]:
        """The names somebody holds."""
        return self._waiting.keys()

    @asynccontextmanager
    async def hold(self, names: Iterable[TopicPartition]) -> AsyncIterator[None]:
        """Hold the locks of `names` while the block runs. Does not wait in the event loop for one that is free."""
        held = []
        try:
            for name in sorted(frozenset(names)):
                await self._acquire(name)
                held.append(name)
            yield
        finally:
            for name in held:
                self._release(name)

    async def _acquire(self, name: TopicPartition) -> None:
        waiting = self._waiting.get(name)
        if waiting is None:
            self._waiting[name] = deque()
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release(name)  # it was handed to us before we were cancelled
            raise

    def _release(self, name: TopicPartition) -> None:
        """Hand the lock on; it is never free in between."""
        waiting = self._waiting[name]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[name]
