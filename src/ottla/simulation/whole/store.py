"""The metadata store of a simulated cluster: one ensemble, reached over links that can be cut, with sessions that end.

    broker --- request ---> ensemble: done there, whoever asked lives or not --- answer ---> broker
           x (cut)          not done, or done and not told: an outcome nobody knows

A session ends when nothing is heard of its process for the session timeout: it died, is paused, or is cut off. Its
owner learns of it when it can communicate again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from ottla.metadata.store.conditions import require_end_offset, require_live_session, require_newest_epoch
from ottla.metadata.store.interface import (
    NO_BROKER,
    BrokerIdTakenError,
    Controllership,
    LiveBroker,
    Session,
    SessionExpiredError,
    StoredRecords,
    StoreError,
    UnknownOutcomeError,
)
from ottla.metadata.store.watchers import StoreWatchers
from ottla.runtime.rng import Rng
from ottla.simulation.whole.event_loop import settle, settle_error
from ottla.simulation.whole.network import Network
from ottla.simulation.whole.process import Life, Process

T = TypeVar("T")

STORE_HOST: Final = "10.0.0.100"

PING_S: Final = 0.5
"""The interval at which the store checks which processes it hears."""

WORK_S: Final = (0.000_2, 0.006)
"""The duration of a write or a read in the store."""


class _Live(Struct):
    """A session that has not ended, and when its process was heard last."""

    session: Session
    registration: bytes
    directory: bytes | None
    client: "SimulatedStore"
    heard_s: float


class Ensemble:
    """The state of the store."""

    def __init__(self, network: Network, rng: Rng, session_timeout_ms: int) -> None:
        self.network = network
        self.loop = network.loop
        self.rng = rng
        self.session_s = session_timeout_ms / 1000
        self.cluster_id = ""
        self.secret: bytes | None = None
        self.log: list[bytes] = []
        self.start_offset = 0
        self.snapshot: tuple[bytes, ...] | None = None
        self.sessions: dict[int, _Live] = {}
        self.broker_epoch = self.controller_epoch = 0
        self.elected = Session(NO_BROKER, -1)
        self.is_away = False
        """Whether it answers nobody."""
        self._clients: list[SimulatedStore] = []
        self.loop.in_world(PING_S, self._ping)

    @property
    def end_offset(self) -> int:
        """Of the log."""
        return self.start_offset + len(self.log)

    def attach(self, client: "SimulatedStore") -> None:
        """One more process has it open."""
        self._clients.append(client)

    def detach(self, client: "SimulatedStore") -> None:
        """A process has closed it."""
        if client in self._clients:
            self._clients.remove(client)

    def hears(self, process: Process) -> bool:
        """Whether a process lives and is reached."""
        is_there = process.life is Life.RUNNING and not self.network.is_silent(process.host)
        return is_there and not self.is_away and not self.network.is_cut(process.host, STORE_HOST)

    def live(self, session: Session) -> _Live | None:
        """The session; None if it has ended."""
        found = self.sessions.get(session.broker_id)
        return found if found is not None and found.session == session else None

    def tell(self, *, log: bool = False, brokers: bool = False, controller: bool = False) -> None:
        """Notify all reachable clients of a change."""
        for client in self._clients:
            client.note(log=log, brokers=brokers, controller=controller)

    def _ping(self) -> None:
        now_s = self.loop.time()
        if not self.is_away:
            for live in tuple(self.sessions.values()):
                if self.hears(live.client.process):
                    live.heard_s = now_s
                elif now_s - live.heard_s > self.session_s:
                    self.end(live)
        self._clients = [client for client in self._clients if not client.process.is_dead]
        for client in self._clients:
            client.look(now_s)
        self.loop.in_world(PING_S, self._ping)

    def end(self, live: _Live) -> None:
        """A session is over."""
        del self.sessions[live.session.broker_id]
        live.client.session_ended(live.session)
        self.tell(brokers=True, controller=live.session == self.elected)

    def come_back(self) -> None:
        """It answers again; sessions last on from now, as after a restart of a real one."""
        self.is_away = False
        for live in self.sessions.values():
            live.heard_s = self.loop.time()

    # What brokers ask for. Each is one step of the ensemble.

    def register(
        self, client: "SimulatedStore", broker_id: int, registration: bytes, directory: bytes | None
    ) -> Session:
        """Begin a session."""
        before = self.sessions.get(broker_id)
        if before is not None:
            if before.client is not client and (directory is None or before.directory != directory):
                raise BrokerIdTakenError(f"broker {broker_id} is running with another data directory")
            self.end(before)
        self.broker_epoch += 1
        session = Session(broker_id, self.broker_epoch)
        self.sessions[broker_id] = _Live(session, registration, directory, client, self.loop.time())
        self.tell(brokers=True)
        return session

    def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker."""
        return [
            LiveBroker(broker_id, live.session.broker_epoch, live.registration)
            for broker_id, live in sorted(self.sessions.items())
        ]

    def controllership(self) -> Controllership:
        """The newest election."""
        return Controllership(self.elected.broker_id, self.controller_epoch, self.live(self.elected) is not None)

    def elect(self, session: Session, seen_epoch: int) -> int:
        """Only who saw the newest election wins the next."""
        require_newest_epoch(seen_epoch, self.controller_epoch)
        require_live_session(session, is_alive=self.live(session) is not None)
        self.elected = session
        self.controller_epoch += 1
        self.tell(controller=True)
        return self.controller_epoch

    def resign(self, controller_epoch: int) -> None:
        """Resign: there is no controller until the next election."""
        require_newest_epoch(controller_epoch, self.controller_epoch)
        self.elected = Session(self.elected.broker_id, -1)
        self.tell(controller=True)

    def append(self, records: Sequence[bytes], controller_epoch: int, expected_end_offset: int) -> int:
        """All records or none."""
        require_newest_epoch(controller_epoch, self.controller_epoch)
        require_end_offset(expected_end_offset, self.end_offset)
        self.log += records
        self.tell(log=True)
        return self.end_offset

    def read(self, from_offset: int) -> StoredRecords:
        """The log, and the snapshot before it."""
        if from_offset < self.start_offset:
            return StoredRecords(self.snapshot, tuple(self.log), self.start_offset, self.end_offset)
        start = max(from_offset, 0)
        return StoredRecords(None, tuple(self.log[start - self.start_offset :]), start, self.end_offset)

    def write_snapshot(self, snapshot: tuple[bytes, ...], controller_epoch: int, end_offset: int) -> None:
        """Drop what a snapshot stands for."""
        require_newest_epoch(controller_epoch, self.controller_epoch)
        del self.log[: end_offset - self.start_offset]
        self.start_offset, self.snapshot = end_offset, snapshot


class SimulatedStore(StoreWatchers):
    """A `MetadataStore` over an `Ensemble`, for one process."""

    def __init__(self, ensemble: Ensemble, process: Process) -> None:
        super().__init__()
        self.process = process
        self._ensemble = ensemble
        self._news: dict[str, None] = {}
        self._is_telling = False
        self._session: Session | None = None
        self._answered_s = ensemble.loop.time()
        self._is_silent = False

    async def open(self, new_cluster_id: str) -> str:
        """Connect."""
        self._ensemble.attach(self)

        def opened() -> str:
            self._ensemble.cluster_id = self._ensemble.cluster_id or new_cluster_id
            return self._ensemble.cluster_id

        return await self._ask(opened)

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored one, or the new one."""

        def stored() -> bytes:
            self._ensemble.secret = self._ensemble.secret or new_secret
            return self._ensemble.secret

        return await self._ask(stored)

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session."""
        self._session = None
        session = await self._ask(lambda: self._ensemble.register(self, broker_id, registration, takes_over))
        if self._ensemble.live(session) is None:
            raise SessionExpiredError("the session has ended already")
        self._session = session
        return session

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions."""
        return await self._ask(self._ensemble.live_brokers)

    async def controller(self) -> Controllership:
        """The newest election."""
        return await self._ask(self._ensemble.controllership)

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Stand for election."""
        return await self._ask(lambda: self._ensemble.elect(session, seen_epoch))

    async def resign(self, *, controller_epoch: int) -> None:
        """Be the controller no more."""
        await self._ask(lambda: self._ensemble.resign(controller_epoch))

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append, or not know whether it was appended."""
        if not records:
            return expected_end_offset
        kept = tuple(records)
        try:
            return await self._ask(lambda: self._ensemble.append(kept, controller_epoch, expected_end_offset))
        except _NotConnectedError as error:
            raise UnknownOutcomeError(str(error)) from error

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on."""
        return await self._ask(lambda: self._ensemble.read(from_offset))

    async def probe(self) -> int:
        """The end offset."""
        return await self._ask(lambda: self._ensemble.end_offset)

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Replace the log's beginning."""
        kept = tuple(snapshot)
        await self._ask(lambda: self._ensemble.write_snapshot(kept, controller_epoch, end_offset))

    async def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        self._ensemble.detach(self)

        def ended() -> None:
            live = None if session is None else self._ensemble.live(session)
            if live is not None:
                self._ensemble.end(live)

        try:
            await self._ask(ended)
        except StoreError:
            return  # it ends by itself

    async def _ask(self, operation: Callable[[], T]) -> T:
        """Have the ensemble do something. Raises what that raises, and StoreError when there is no answer."""
        ensemble, loop = self._ensemble, self._ensemble.loop
        network, host = ensemble.network, self.process.host
        answer: asyncio.Future[T] = loop.create_future()
        is_given_up = False

        def arrive() -> None:
            if is_given_up:
                return  # its connection has ended since
            if ensemble.is_away or network.link(host, STORE_HOST).is_cut or network.is_silent(host):
                loop.in_world(PING_S, arrive)
                return
            try:
                result = operation()
            except StoreError as error:
                go_back(partial(settle_error, answer, error))
            else:
                go_back(partial(settle, answer, result))

        def go_back(settle: Callable[[], object]) -> None:
            if is_given_up or self.process.is_dead:
                return
            if ensemble.is_away or network.link(STORE_HOST, host).is_cut:
                loop.in_world(PING_S, go_back, settle)
                return
            loop.as_process(self.process, settle)

        loop.in_world(network.delay_s(host, STORE_HOST) + ensemble.rng.uniform(*WORK_S), arrive)
        try:
            async with asyncio.timeout(ensemble.session_s):
                result = await answer
        except TimeoutError:
            raise _NotConnectedError(f"the store did not answer for {ensemble.session_s:g} s") from None
        finally:
            is_given_up = True
        return result

    # What the ensemble tells.

    def note(self, *, log: bool = False, brokers: bool = False, controller: bool = False) -> None:
        """Something has changed."""
        for is_new, what in ((log, "log"), (brokers, "brokers"), (controller, "controller")):
            if is_new:
                self._note(what)

    def session_ended(self, session: Session) -> None:
        """The ensemble has ended a session of this process."""
        if self._session == session:
            self._session = None
            self._note("session")

    def _note(self, what: str) -> None:
        self._news[what] = None
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._news and not self._is_telling and not self.process.is_dead:
            self._is_telling = True
            network = self._ensemble.network
            self._ensemble.loop.in_world(network.delay_s(STORE_HOST, self.process.host), self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        if self.process.is_dead or self._ensemble.is_away:
            return  # `look` tries again
        if self._ensemble.network.is_cut(STORE_HOST, self.process.host):
            return
        news, self._news = self._news, {}
        self._ensemble.loop.as_process(self.process, self._call, tuple(news))

    def _call(self, news: tuple[str, ...]) -> None:
        if "session" in news:
            self.tell_session_end()
        if "log" in news:
            self.tell_growth(self._ensemble.end_offset)
        if "brokers" in news:
            self.tell_brokers()
        if "controller" in news:
            self.tell_controller()

    def look(self, now_s: float) -> None:
        """Every now and then: whether the ensemble is still there, and what could not be told is told."""
        if not self._ensemble.is_away and not self._ensemble.network.is_cut(STORE_HOST, self.process.host):
            self._answered_s = now_s
            if self._is_silent:  # all watches are gone: look at everything
                self._is_silent = False
                self.note(log=True, brokers=True, controller=True)
            self._tell_soon()
        elif not self._is_silent and now_s - self._answered_s > self._ensemble.session_s:
            self._is_silent = True
            self._ensemble.loop.as_process(self.process, self._call, ("controller",))


class _NotConnectedError(StoreError):
    """There was no answer."""
