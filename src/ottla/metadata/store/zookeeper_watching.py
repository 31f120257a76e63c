"""What changes in ZooKeeper, told to those who watch.

There is one watch each for the log, the brokers, the controller and the own session, set again whenever it has told of
something.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Struct

from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.interface import Controllership, Session, StoreError
from ottla.metadata.store.watchers import StoreWatchers
from ottla.metadata.store.zookeeper_access import ZooKeeperAccess
from ottla.metadata.store.zookeeper_election import ZooKeeperElection
from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

LOOK_AGAIN_MS: Final = 250
"""How long to wait before what could not be looked at is looked at again."""


class _Seen(Struct):
    """What those who watch were told of."""

    end_offset: int
    sessions: tuple[Session, ...]
    controllership: Controllership


class ZooKeeperWatching:
    """Belongs to the event loop. Nothing is told before a session has begun, and after it has ended."""

    def __init__(
        self, access: ZooKeeperAccess, election: ZooKeeperElection, tasks: Tasks, watchers: StoreWatchers
    ) -> None:
        self._access = access
        self._election = election
        self._tasks = tasks
        self._watchers = watchers
        self._session: Session | None = None
        self._seen: _Seen | None = None
        self._news: set[Callable[[], Coroutine[Any, Any, None]]] = set()
        self._is_looking = False
        self._is_closed = False

    async def begin(self, session: Session) -> None:
        """Tell of everything that is not as it is now. Raises StoreError."""
        self._session = session
        self._seen = await self._access.repeated(self._look_for_the_first_time)
        self.look_at_all()

    def end(self) -> None:
        """The session is given up."""
        self._session = self._seen = None

    def close(self) -> None:
        """Tell of nothing more."""
        self._is_closed = True
        self.end()

    def lose(self) -> None:
        """The session has ended."""
        if self._session is not None:
            self.end()
            self._watchers.tell_session_end()

    def grown(self, end_offset: int) -> None:
        """This process has appended."""
        if self._seen is not None:
            self._seen.end_offset = max(end_offset, self._seen.end_offset)
        self._watchers.tell_growth(end_offset)

    def look_at_all(self) -> None:
        """Look at everything anew: the connection is."""
        for look in (self._look_at_log, self._look_at_brokers, self._look_at_controller, self._look_at_session):
            self._look_soon(look)

    def _look_soon(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Look at one thing, in a task; once for all that asked for it meanwhile."""
        self._news.add(look)
        if not self._is_looking and not self._is_closed:
            self._is_looking = True
            self._tasks.spawn(self._look(), "watching the metadata store")

    async def _look(self) -> None:
        timer = Timer(SystemClock(), asyncio.get_running_loop().call_later)
        try:
            while self._news and self._seen is not None:
                look = self._news.pop()
                try:
                    await self._access.repeated(look)
                except StoreError as error:
                    # A watch that was not set again would never tell of anything.
                    self._news.add(look)
                    logger.debug("the metadata store cannot be watched, trying again: %s", error)
                    await timer.sleep(LOOK_AGAIN_MS)
        finally:
            timer.close()
            self._is_looking = False

    async def _look_for_the_first_time(self) -> _Seen:
        sessions = tuple(Session(each.broker_id, each.epoch) for each in await self._election.brokers())
        data, _ = await self._access.client.get(nodes.END)
        return _Seen(nodes.decode_number(data), sessions, await self._election.controller())

    async def _look_at_log(self) -> None:
        data, _ = await self._access.client.get(nodes.END, self._on_log)
        end_offset = nodes.decode_number(data)
        if self._seen is not None and end_offset > self._seen.end_offset:
            self._seen.end_offset = end_offset
            self._watchers.tell_growth(end_offset)

    def _on_log(self) -> None:
        self._look_soon(self._look_at_log)

    async def _look_at_brokers(self) -> None:
        sessions = tuple(Session(each.broker_id, each.epoch) for each in await self._election.brokers(self._on_brokers))
        if self._seen is not None and sessions != self._seen.sessions:
            self._seen.sessions = sessions
            self._watchers.tell_brokers()
            # The controller's session may be one of those that ended.
            self._look_soon(self._look_at_controller)

    def _on_brokers(self) -> None:
        self._look_soon(self._look_at_brokers)

    async def _look_at_controller(self) -> None:
        controllership = await self._election.controller(self._on_controller)
        if self._seen is not None and controllership != self._seen.controllership:
            self._seen.controllership = controllership
            self._watchers.tell_controller()

    def _on_controller(self) -> None:
        self._look_soon(self._look_at_controller)

    async def _look_at_session(self) -> None:
        session = self._session
        if session is None:
            return
        await self._access.client.exists(f"{nodes.BROKER_IDS}/{session.broker_id}", self._on_session)
        own = await self._election.broker(session.broker_id)
        if session == self._session and (own is None or own.epoch != session.broker_epoch):
            self.lose()

    def _on_session(self) -> None:
        self._look_soon(self._look_at_session)
