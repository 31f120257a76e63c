"""The embedded engine: one SQLite file, shared by any number of broker processes of one host. Nothing to set up.

    metadata.db           cluster, sessions, snapshot, log (`metadata_file`)
    metadata.sessions/    what ends a session with its process, and wakes the processes of the others (`session_files`)

Who changes something wakes every other process by a byte in its pipe; who dies wakes them by the end of its own pipe. A
process that is silent keeps its pipes: each renews its session from its event loop, and the others end one that was not
renewed in time. All blocking calls run in one thread, in order; the event loop never waits for the disk.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from msgspec.structs import replace

from ottla.metadata.store.interface import (
    SESSION_TIMEOUT_MS,
    Controllership,
    LiveBroker,
    Session,
    StoredRecords,
    StoreError,
)
from ottla.metadata.store.metadata_file import MetadataFile, StoreState
from ottla.metadata.store.session_files import (
    DIRECTORY_NAME,
    OwnSessionFiles,
    PeerSessionFiles,
    remove,
    remove_all_but,
)
from ottla.metadata.store.watchers import StoreWatchers
from ottla.metadata.store.write_lock import WriteLock, is_held_by_another
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.disk import PRIVATE
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE_NAME: Final = "metadata.db"
RENEWALS_PER_TIMEOUT: Final = 3
"""A session outlives two renewals that a busy machine was late with."""

LOCK_TIMEOUT_MS: Final = 5_000
"""How long a call waits while another process writes; whoever called may call again."""

START_TIMEOUT_MS: Final = 60_000
"""The same of a broker that starts, who would end: on a disk that is busy, one that makes the file takes seconds."""

PROBE_TIMEOUT_MS: Final = 1_500
"""The same of who only asks whether it can be written, and is to answer somebody who waits."""

LOCK_RETRY_MS: Final = 20
"""How soon it is made again meanwhile."""


class EmbeddedStore(StoreWatchers):
    """A `MetadataStore` in the file `metadata.db` of a directory, which is made when it is missing."""

    def __init__(
        self, directory: Path, *, session_timeout_ms: int = SESSION_TIMEOUT_MS, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._path = directory / FILE_NAME
        self._sessions_path = directory / DIRECTORY_NAME
        self._session_timeout_ms = session_timeout_ms
        self._renewal_ms = max(1, session_timeout_ms // RENEWALS_PER_TIMEOUT)
        self._clock = clock or SystemClock()
        self._tasks = Tasks("ottla-metadata", threads_max=1)
        # Of the event loop.
        self._timer: Timer | None = None
        self._alarm: TimerTask | None = None
        self._seen: StoreState | None = None
        """What those who watch were told of; None without a session."""
        self._watched: dict[int, PeerSessionFiles] = {}
        self._wake_fd: int | None = None
        self._due_ms = 0
        self._is_looking = False
        self._has_news = False
        self._is_closed = False
        # Of the thread.
        self._file: MetadataFile | None = None
        self._lock = WriteLock(self._path, self._clock)
        self._session: Session | None = None
        self._own: OwnSessionFiles | None = None
        self._peers: dict[int, PeerSessionFiles] = {}
        self._judges_from_ms = 0

    async def open(self, new_cluster_id: str) -> str:
        """Open the file, make it at the first start, and return the cluster's id.

        Raises StoreError when the file is not one of ours, or of a newer release.
        """
        self._timer = Timer(self._clock, asyncio.get_running_loop().call_later)
        return await self._within(START_TIMEOUT_MS, self._open, new_cluster_id)

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored secret, or the new one when there is none."""
        return await self._within(START_TIMEOUT_MS, lambda: self._opened.cluster_secret(new_secret))

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session; an older one of the same id and directory ends. Raises BrokerIdTakenError."""
        self._stop_watching()
        session, seen = await self._within(START_TIMEOUT_MS, self._register, broker_id, registration, takes_over)
        self._seen = seen
        assert self._own is not None
        self._wake_fd = self._own.wake_fd
        asyncio.get_running_loop().add_reader(self._wake_fd, self._on_wake)
        self._due_ms = self._clock.monotonic_ms()
        self._look_soon()
        return session

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker id."""
        return await self._call(self._opened.live_brokers)

    async def controller(self) -> Controllership:
        """The newest election."""
        return await self._call(self._opened.controller)

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Make the session's broker the controller, if `seen_epoch` is still the newest epoch.

        Raises FencedError and SessionExpiredError.
        """
        return await self._call(lambda: self._and_wake(self._opened.elect(session, seen_epoch)))

    async def resign(self, *, controller_epoch: int) -> None:
        """Have nobody be the controller until the next election. Raises FencedError."""
        await self._call(self._resign, controller_epoch)

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none, durably. Raises FencedError or StaleOffsetError."""
        end_offset = await self._call(
            lambda: self._and_wake(self._opened.append(records, controller_epoch, expected_end_offset))
        )
        if self._seen is not None:
            self._seen = replace(self._seen, end_offset=max(end_offset, self._seen.end_offset))
        self.tell_growth(end_offset)
        return end_offset

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on, with the snapshot when it starts before it."""
        return await self._call(lambda: self._opened.read(from_offset))

    async def probe(self) -> int:
        """The end offset. Raises StoreError, as while another process keeps the write lock."""
        return await self._within(PROBE_TIMEOUT_MS, self._opened.probe)

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Replace the records below `end_offset` by a snapshot. Raises FencedError."""
        await self._call(lambda: self._opened.write_snapshot(snapshot, controller_epoch, end_offset))

    async def close(self) -> None:
        """End this process's session and close the file. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_watching()
        if self._timer is not None:
            self._timer.close()
        try:
            await self._call(self._close)
        finally:
            await self._tasks.close()

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._within(LOCK_TIMEOUT_MS, function, *args, **kwargs)

    async def _within(self, timeout_ms: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        begun_ms = self._clock.monotonic_ms()
        has_waited = False
        while True:
            try:
                result = await self._tasks.in_thread(function, *args, **kwargs)
                if has_waited:
                    await self._tasks.in_thread(self._lock.got)
            except (sqlite3.Error, OSError) as error:
                if not isinstance(error, sqlite3.Error) or not is_held_by_another(error):
                    raise StoreError(f"{self._path}: {error}") from error
            else:
                return result
            has_waited = True
            await self._tasks.in_thread(self._lock.held_by_another)
            if self._is_closed or self._clock.monotonic_ms() - begun_ms >= timeout_ms:
                holder = await self._tasks.in_thread(self._lock.holder)
                raise StoreError(f"{self._path} cannot be written while {holder} is writing")
            assert self._timer is not None
            await self._timer.sleep(LOCK_RETRY_MS)

    # What the event loop sees of others.

    def _on_wake(self) -> None:
        assert self._own is not None
        self._own.drain()
        self._look_soon()

    def _on_peer_end(self, peer: PeerSessionFiles) -> None:
        asyncio.get_running_loop().remove_reader(peer.alive_fd)
        self._look_soon()

    def _look_soon(self) -> None:
        """Read what there is to be told of, in a task; once for all that asked for it meanwhile."""
        self._has_news = True
        if not self._is_looking and not self._is_closed:
            self._is_looking = True
            self._tasks.spawn(self._look(), "watching the metadata store")

    async def _look(self) -> None:
        next_ms = self._renewal_ms
        try:
            while self._has_news and self._seen is not None:
                self._has_news = False
                now_ms = self._clock.monotonic_ms()
                state, ended, deadline_ms = await self._call(self._observe, now_ms, self._due_ms)
                if self._seen is not None:
                    self._watch_peers()
                if ended:
                    await self._call(_close_all, ended)
                next_ms = min(self._renewal_ms, max(1, deadline_ms - now_ms))
                if self._seen is not None:
                    self._tell_of(state)
        except StoreError as error:
            logger.warning("cannot watch the metadata store, retrying: %s", error)
        finally:
            self._is_looking = False
            if self._seen is not None and not self._is_closed:
                self._look_again(next_ms)

    def _look_again(self, delay_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        assert self._timer is not None
        self._due_ms = self._clock.monotonic_ms() + delay_ms
        self._alarm = self._timer.schedule(delay_ms, self._look_soon)

    def _watch_peers(self) -> None:
        loop = asyncio.get_running_loop()
        peers = dict(self._peers)
        for epoch in self._watched.keys() - peers.keys():
            loop.remove_reader(self._watched[epoch].alive_fd)
        for epoch in peers.keys() - self._watched.keys():
            loop.add_reader(peers[epoch].alive_fd, self._on_peer_end, peers[epoch])
        self._watched = peers

    def _stop_watching(self) -> None:
        self._seen = None
        loop = asyncio.get_running_loop()
        for peer in self._watched.values():
            loop.remove_reader(peer.alive_fd)
        self._watched = {}
        if self._wake_fd is not None:
            loop.remove_reader(self._wake_fd)
            self._wake_fd = None

    def _tell_of(self, state: StoreState) -> None:
        before, self._seen = self._seen, state
        assert before is not None
        if self._session not in state.sessions:
            self._stop_watching()
            self.tell_session_end()
            return
        if state.end_offset > before.end_offset:
            self.tell_growth(state.end_offset)
        if state.sessions != before.sessions:
            self.tell_brokers()
        if state.controllership != before.controllership:
            self.tell_controller()

    # What follows runs in the thread.

    @property
    def _opened(self) -> MetadataFile:
        if self._file is None:
            raise StoreError(f"{self._path} is not open")
        return self._file

    def _open(self, new_cluster_id: str) -> str:
        self._path.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        self._file = MetadataFile(self._path, new_cluster_id)
        return self._file.cluster_id

    def _register(self, broker_id: int, registration: bytes, directory: bytes | None) -> tuple[Session, StoreState]:
        now_ms = self._clock.monotonic_ms()
        self._release()
        self._judges_from_ms = 0

        def begin(broker_epoch: int) -> None:
            self._own = OwnSessionFiles(self._sessions_path, broker_epoch, self._session_timeout_ms, now_ms)

        try:
            self._session, living = self._opened.register(
                broker_id, registration, directory, is_alive=lambda epoch: self._is_alive(epoch, now_ms), begin=begin
            )
        except BaseException:
            self._release()
            raise
        remove_all_but(self._sessions_path, living, below=self._session.broker_epoch)
        for epoch in living:
            self._peer(epoch)
        self._wake()
        return self._session, self._opened.state()

    def _observe(self, now_ms: int, due_ms: int) -> tuple[StoreState, list[PeerSessionFiles], int]:
        """Renew the own session, end those that are over; what there is, what to close, the next deadline of a peer."""
        if now_ms > due_ms + self._renewal_ms:
            # This process was stopped for a while, or the whole machine was: the others may renew as late as it does.
            self._judges_from_ms = now_ms + self._renewal_ms
        if self._own is not None:
            self._own.renew(now_ms)
        state = self._opened.state()
        is_locked = False
        if not all(self._is_alive(session.broker_epoch, now_ms) for session in state.sessions):
            is_locked = not self._end_dead_sessions(now_ms)
            state = self._opened.state()
        living = {session.broker_epoch for session in state.sessions}
        ended = [self._peers.pop(epoch) for epoch in self._peers.keys() - living]
        for peer in ended:
            remove(self._sessions_path, peer.broker_epoch)
        if is_locked:
            return state, ended, now_ms + LOCK_RETRY_MS
        deadlines = [max(peer.deadline_ms(), self._judges_from_ms) for peer in self._peers.values()]
        return state, ended, min(deadlines, default=now_ms + self._renewal_ms)

    def _end_dead_sessions(self, now_ms: int) -> bool:
        """End the sessions that are over; False when another process writes, which may be one of those."""
        try:
            self._opened.end_dead_sessions(lambda epoch: self._is_alive(epoch, now_ms))
        except sqlite3.Error as error:
            if not is_held_by_another(error):
                raise
            self._lock.held_by_another()
            return False
        self._lock.got()
        self._wake()
        return True

    def _is_alive(self, broker_epoch: int, now_ms: int) -> bool:
        if self._own is not None and broker_epoch == self._own.broker_epoch:
            return True
        peer = self._peer(broker_epoch)
        if peer is None or not peer.has_process():
            return False
        return now_ms < self._judges_from_ms or now_ms < peer.deadline_ms()

    def _resign(self, controller_epoch: int) -> None:
        self._opened.resign(controller_epoch)
        self._wake()

    def _peer(self, broker_epoch: int) -> PeerSessionFiles | None:
        if self._own is not None and broker_epoch == self._own.broker_epoch:
            return None
        peer = self._peers.get(broker_epoch)
        if peer is None:
            try:
                peer = self._peers[broker_epoch] = PeerSessionFiles(self._sessions_path, broker_epoch)
            except FileNotFoundError:
                return None
        return peer

    def _and_wake(self, result: T) -> T:
        self._wake()
        return result

    def _wake(self) -> None:
        for peer in self._peers.values():
            peer.wake()

    def _release(self) -> None:
        """Let go of what a session holds."""
        self._session = None
        own, self._own = self._own, None
        if own is not None:
            own.close()
        peers, self._peers = self._peers, {}
        _close_all(peers.values())

    def _close(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None and self._session is not None:
                file.end_session(self._session)
                self._wake()
        except sqlite3.Error as error:
            if not is_held_by_another(error):
                raise  # otherwise the end of the pipe says it
        finally:
            self._release()
            if file is not None:
                file.close()


def _close_all(peers: Iterable[PeerSessionFiles]) -> None:
    for peer in peers:
        peer.close()
