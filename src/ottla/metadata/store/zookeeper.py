"""The ZooKeeper engine: the metadata of brokers on many hosts, in an ensemble that the operator has.

What a transaction of ZooKeeper makes safe:

    register    check nobody else has the id, raise /brokers/epoch, make the ephemeral node
    elect       check the own broker node, raise /controller_epoch from the version that was seen, make /controller anew
    resign      check /controller_epoch, delete /controller
    append      check /controller_epoch, make the node of the offset, move /metadata/end from the version that was seen

A write whose answer was lost is made again as it was. It carries a token: when its node is there already, the token
says whether it is this write's. Pieces of a large append are written first, and are nothing until the node of its
offset is. A snapshot's pointer moves when all its pieces are there; the one before it, and the log since then, stay for
those who read them. Each broker watches one node for the log, one for the brokers, one for the controller and its own.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from msgspec import Struct

from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.interface import (
    SESSION_TIMEOUT_MS,
    BrokerIdTakenError,
    Controllership,
    FencedError,
    LiveBroker,
    Session,
    SessionExpiredError,
    StaleOffsetError,
    StoredRecords,
    StoreError,
    UnknownOutcomeError,
)
from ottla.metadata.store.zookeeper_client import NotConnectedError, Operation, Refusal, ZooKeeperClient
from ottla.runtime.clock import SystemClock
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

T = TypeVar("T")

READS_AT_ONCE: Final = 256
"""Nodes asked for before the first has answered, so that a long log is not read one round trip after another."""

DELETES_AT_ONCE: Final = 500
"""Nodes deleted by one transaction: their names together are far below what a request may have."""

LOOK_AGAIN_MS: Final = 250
"""How long to wait before what could not be looked at is looked at again."""

ATTEMPTS_MAX: Final = 100
"""A transaction that is refused so often because others were faster is not going to be made."""


class _Seen(Struct):
    """What those who watch were told of."""

    end_offset: int
    sessions: tuple[Session, ...]
    controllership: Controllership


class ZooKeeperStore:
    """A `MetadataStore` below a node of a ZooKeeper ensemble."""

    def __init__(
        self, hosts: str, root: str, *, session_timeout_ms: int = SESSION_TIMEOUT_MS, rng: Rng | None = None
    ) -> None:
        """`hosts` as in `a:2181,b:2181`; `root` is "" or a path without a slash at its end."""
        self._hosts = hosts
        self._root = root
        self._session_timeout_ms = session_timeout_ms
        self._rng = rng or SystemRng()
        self._tasks = Tasks("ottla-zookeeper", threads_max=1)
        self._client: ZooKeeperClient | None = None
        self._watchers: list[Callable[[int], object]] = []
        self._broker_watchers: list[Callable[[], object]] = []
        self._controller_watchers: list[Callable[[], object]] = []
        self._session_watchers: list[Callable[[], object]] = []
        self._session: Session | None = None
        self._seen: _Seen | None = None
        self._news: set[Callable[[], Coroutine[Any, Any, None]]] = set()
        self._is_looking = False
        self._is_closed = False
        self._controller_epoch: tuple[int, int] | None = None
        """A controller epoch and the version of its node."""
        self._end: tuple[int, int] | None = None
        """The end offset and the version of its node, as this process wrote or read them last."""

    async def open(self, new_cluster_id: str) -> str:
        """Connect, and make the nodes at the first start. Raises StoreError."""
        if self._client is None:
            self._client = ZooKeeperClient(self._hosts, self._root, self._session_timeout_ms, self._tasks)
            self._client.on_lost = self._on_lost
            self._client.on_silence = lambda: _tell(self._controller_watchers)
            self._client.on_connected = self._look_at_all
            try:
                await self._client.connect(self._session_timeout_ms / 1000)
            except NotConnectedError as error:
                raise StoreError(f"{self._hosts}: {error}: start ZooKeeper, or correct where it is") from error
        return await self._guarded(self._open(new_cluster_id))

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored secret, or the new one when there is none."""
        return await self._guarded(self._repeated(lambda: self._cluster_secret(new_secret)))

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session; an older one of the same id and directory ends. Raises BrokerIdTakenError."""
        self._session = self._seen = None
        writer = self._rng.token_bytes(16).hex()
        node = nodes.BrokerNode(broker_id, 0, takes_over, registration, writer)
        session = await self._guarded(self._repeated(lambda: self._register(node)))
        self._session = session
        self._seen = await self._guarded(self._repeated(self._look_for_the_first_time))
        self._look_at_all()
        return session

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker id."""
        brokers = await self._guarded(self._brokers())
        return [LiveBroker(each.broker_id, each.epoch, each.registration) for each in brokers]

    async def controller(self) -> Controllership:
        """The newest election."""
        return await self._guarded(self._controller())

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Make the session's broker the controller, if `seen_epoch` is still the newest epoch.

        Raises FencedError and SessionExpiredError.
        """
        writer = self._rng.token_bytes(16).hex()
        return await self._guarded(self._repeated(lambda: self._elect(session, seen_epoch, writer)))

    async def resign(self, *, controller_epoch: int) -> None:
        """Have nobody be the controller until the next election. Raises FencedError."""
        await self._guarded(self._repeated(lambda: self._resign(controller_epoch)))

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none, durably. Raises FencedError, StaleOffsetError and UnknownOutcomeError."""
        if not records:
            return expected_end_offset
        writer = self._rng.token_bytes(16)
        pieces = nodes.encode_batch(records, controller_epoch, writer)
        end_offset = expected_end_offset + len(records)

        async def attempt() -> None:
            await self._append(pieces, writer, controller_epoch, expected_end_offset, end_offset)

        try:
            await self._guarded(self._repeated(attempt))
        except NotConnectedError as error:
            self._end = None
            raise UnknownOutcomeError(f"{self._hosts}: {error}") from error
        if self._seen is not None:
            self._seen.end_offset = max(end_offset, self._seen.end_offset)
        _tell(self._watchers, end_offset)
        return end_offset

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on, with the snapshot when it starts before it."""
        return await self._guarded(self._repeated(lambda: self._read(from_offset)))

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Replace the records below `end_offset` by a snapshot. Raises FencedError."""
        pieces = nodes.encode_batch(snapshot, controller_epoch, self._rng.token_bytes(16))
        name = f"{end_offset:020}-{self._rng.token_bytes(4).hex()}"
        pointer = nodes.SnapshotPointer(end_offset, name, len(pieces))
        before = await self._guarded(self._repeated(lambda: self._write_snapshot(pieces, pointer, controller_epoch)))
        await self._guarded(self._remove_before(before, pointer, controller_epoch))

    def watch(self, callback: Callable[[int], object]) -> None:
        """Call back after each growth of the log."""
        self._watchers.append(callback)

    def watch_brokers(self, callback: Callable[[], object]) -> None:
        """Call back when sessions of others came or went."""
        self._broker_watchers.append(callback)

    def watch_controller(self, callback: Callable[[], object]) -> None:
        """Call back after an election, and when the controller's session ended."""
        self._controller_watchers.append(callback)

    def watch_session(self, callback: Callable[[], object]) -> None:
        """Call back when this process's session has ended other than by `close`."""
        self._session_watchers.append(callback)

    async def close(self) -> None:
        """End the session and disconnect. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._session = self._seen = None
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()
        await self._tasks.close()

    @property
    def _zookeeper(self) -> ZooKeeperClient:
        if self._client is None:
            raise StoreError(f"the store in ZooKeeper ({self._hosts}) is not open")
        return self._client

    async def _guarded(self, asking: Awaitable[T]) -> T:
        """What the servers refuse for reasons that are none of ours is an error of the store."""
        try:
            return await asking
        except (KazooException, Refusal) as error:
            reason = error.reason if isinstance(error, Refusal) else error
            where = f"{self._hosts}{self._root}"
            if isinstance(reason, NoAuthError):
                raise StoreError(f"{where}: ZooKeeper does not let this broker write there") from error
            raise StoreError(f"{where}: {reason!r}") from error

    async def _repeated(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make an attempt until it has an outcome: not while there is no connection, nor when others were faster.

        An attempt sees by itself whether the one before it, whose answer was lost, was made. Raises NotConnectedError
        when there is no outcome after the time that a session lasts.
        """
        timeout_s = self._session_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._attempts(attempt)
        except TimeoutError:
            raise NotConnectedError(f"no ZooKeeper server could be asked in {timeout_s:g} s") from None

    async def _attempts(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(ATTEMPTS_MAX):
            await self._zookeeper.wait_until_connected()
            try:
                return await attempt()
            except NotConnectedError:
                self._end = self._controller_epoch = None
            except Refusal as refusal:
                if not isinstance(refusal.reason, BadVersionError | NoNodeError | NodeExistsError):
                    raise
                self._end = self._controller_epoch = None
            except NoNodeError:
                pass
        raise StoreError(f"{self._hosts}{self._root}: other processes change it all the time")

    async def _open(self, new_cluster_id: str) -> str:
        client = self._zookeeper
        await client.ensure_root()
        for _ in range(ATTEMPTS_MAX):
            try:
                data, _ = await client.get(nodes.CLUSTER_ID)
                layout, _ = await client.get(nodes.LAYOUT)
            except NoNodeError:
                try:
                    await client.commit(*first_nodes(new_cluster_id, nodes.LAYOUT_VERSION))
                except Refusal as refusal:
                    if not isinstance(refusal.reason, NodeExistsError):
                        raise
                    if await client.exists(nodes.LAYOUT) is None and await client.exists(nodes.CLUSTER_ID) is not None:
                        raise StoreError(
                            f"{self._hosts}{self._root or '/'} is another software's: give Ottla a node of its own"
                        ) from refusal
                continue
            if nodes.decode_number(layout) == nodes.LAYOUT_BEING_FILLED:
                raise StoreError(
                    f"{self._hosts}{self._root}: metadata is being moved there: wait, or begin the move again"
                )
            if nodes.decode_number(layout) != nodes.LAYOUT_VERSION:
                raise StoreError(
                    f"{self._hosts}{self._root} has layout {layout.decode()}, this release knows {nodes.LAYOUT_VERSION}"
                )
            return nodes.decode_cluster_id(data)
        raise StoreError(f"{self._hosts}{self._root}: other processes change it all the time")

    async def _cluster_secret(self, new_secret: bytes) -> bytes:
        try:
            await self._zookeeper.create(nodes.CLUSTER_SECRET, new_secret)
        except NodeExistsError:
            new_secret, _ = await self._zookeeper.get(nodes.CLUSTER_SECRET)
        return new_secret

    # Sessions and elections.

    async def _register(self, node: nodes.BrokerNode) -> Session:
        client = self._zookeeper
        path = f"{nodes.BROKER_IDS}/{node.broker_id}"
        steps: list[Operation] = []
        try:
            data, status = await client.get(path)
        except NoNodeError:
            pass
        else:
            living = nodes.decode_broker(node.broker_id, data)
            is_own_session = status.ephemeralOwner == client.session_id
            if is_own_session and living.writer == node.writer:
                return Session(node.broker_id, living.epoch)
            if not is_own_session and (node.directory is None or living.directory != node.directory):
                raise BrokerIdTakenError(
                    f"broker {node.broker_id} is running with another data directory, or was until "
                    f"{self._session_timeout_ms} ms ago: give this one another node.id"
                )
            steps.append(Operation("delete", path, status.version))
        data, status = await client.get(nodes.BROKER_EPOCH)
        epoch = nodes.decode_number(data) + 1
        encoded = nodes.BrokerNode(node.broker_id, epoch, node.directory, node.registration, node.writer).encode()
        await client.commit(
            Operation("set_data", nodes.BROKER_EPOCH, nodes.encode_number(epoch), status.version),
            *steps,
            Operation("create", path, encoded, ephemeral=True),
        )
        return Session(node.broker_id, epoch)

    async def _brokers(self, watch: Callable[[], None] | None = None) -> list[nodes.BrokerNode]:
        names = await self._zookeeper.children(nodes.BROKER_IDS, watch)
        found = await asyncio.gather(*(self._broker(int(name)) for name in sorted(names, key=int)))
        return [node for node in found if node is not None]

    async def _broker(self, broker_id: int) -> nodes.BrokerNode | None:
        try:
            data, _ = await self._zookeeper.get(f"{nodes.BROKER_IDS}/{broker_id}")
        except NoNodeError:
            return None
        return nodes.decode_broker(broker_id, data)

    async def _controller(self, watch: Callable[[], None] | None = None) -> Controllership:
        client = self._zookeeper
        if watch is not None:
            await client.exists(nodes.CONTROLLER, watch)
        data, _ = await client.get(nodes.ELECTION)
        elected = nodes.decode_election(data)
        # Whether it is alive is asked after who it is: of an election in between one hears as of one after it.
        is_there = await client.exists(nodes.CONTROLLER) is not None
        broker = await self._broker(elected.broker_id) if is_there else None
        is_alive = broker is not None and broker.epoch == elected.broker_epoch
        return Controllership(elected.broker_id, elected.epoch, is_alive)

    async def _elect(self, session: Session, seen_epoch: int, writer: str) -> int:
        client = self._zookeeper
        # Other controllers may have appended since this one last did.
        self._end = None
        data, status = await client.get(nodes.CONTROLLER_EPOCH)
        epoch = nodes.decode_number(data)
        if epoch != seen_epoch:
            data, _ = await client.get(nodes.ELECTION)
            if epoch == seen_epoch + 1 and nodes.decode_election(data).writer == writer:
                self._controller_epoch = epoch, status.version
                return epoch
            raise FencedError(f"controller epoch {seen_epoch} is over: the newest is {epoch}")
        own = await self._broker(session.broker_id)
        if own is None or own.epoch != session.broker_epoch:
            raise SessionExpiredError(f"the session of broker {session.broker_id} has ended")
        before = await client.exists(nodes.CONTROLLER)
        elected = nodes.ElectionNode(session.broker_id, session.broker_epoch, epoch + 1, writer).encode()
        await client.commit(
            Operation("check", f"{nodes.BROKER_IDS}/{session.broker_id}", -1),
            Operation("set_data", nodes.CONTROLLER_EPOCH, nodes.encode_number(epoch + 1), status.version),
            Operation("set_data", nodes.ELECTION, elected, -1),
            *([] if before is None else [Operation("delete", nodes.CONTROLLER, before.version)]),
            Operation("create", nodes.CONTROLLER, elected, ephemeral=True),
        )
        self._controller_epoch = epoch + 1, status.version + 1
        return epoch + 1

    async def _resign(self, controller_epoch: int) -> None:
        check = await self._epoch_check(controller_epoch)
        status = await self._zookeeper.exists(nodes.CONTROLLER)
        if status is not None:
            await self._zookeeper.commit(check, Operation("delete", nodes.CONTROLLER, status.version))

    # The log.

    async def _append(
        self, pieces: Sequence[bytes], writer: bytes, controller_epoch: int, offset: int, end_offset: int
    ) -> None:
        client = self._zookeeper
        if await self._is_written(offset, writer):
            return
        check = await self._epoch_check(controller_epoch)
        end, version = await self._read_end()
        if end != offset:
            self._end = self._controller_epoch = None
            await self._epoch_check(controller_epoch)
            raise StaleOffsetError(f"the metadata log ends at {end}, not at {offset}")
        if len(pieces) > 1:
            await asyncio.gather(
                *(
                    self._put(nodes.log_path(offset, number), piece, check)
                    for number, piece in enumerate(pieces)
                    if number
                )
            )
        await client.commit(
            check,
            Operation("create", nodes.log_path(offset), pieces[0]),
            Operation("set_data", nodes.END, nodes.encode_number(end_offset), version),
        )
        self._end = end_offset, version + 1

    async def _is_written(self, offset: int, writer: bytes) -> bool:
        """Whether an attempt to write this was made whose answer was lost."""
        if self._end is not None and self._end[0] == offset:
            return False
        try:
            data, _ = await self._zookeeper.get(nodes.log_path(offset))
        except NoNodeError:
            return False
        return nodes.batch_of(data).writer == writer

    async def _epoch_check(self, controller_epoch: int) -> Operation:
        if self._controller_epoch is None or self._controller_epoch[0] != controller_epoch:
            data, status = await self._zookeeper.get(nodes.CONTROLLER_EPOCH)
            self._controller_epoch = nodes.decode_number(data), status.version
        newest, version = self._controller_epoch
        if newest != controller_epoch:
            raise FencedError(f"controller epoch {controller_epoch} is over: the newest is {newest}")
        return Operation("check", nodes.CONTROLLER_EPOCH, version)

    async def _read_end(self) -> tuple[int, int]:
        if self._end is None:
            data, status = await self._zookeeper.get(nodes.END)
            self._end = nodes.decode_number(data), status.version
        return self._end

    async def _put(self, path: str, data: bytes, check: Operation) -> None:
        """Make a node that counts for nothing yet, or write over what a controller that died has left there."""
        client = self._zookeeper
        try:
            await client.commit(check, Operation("create", path, data))
        except Refusal as refusal:
            if not isinstance(refusal.reason, NodeExistsError):
                raise
            await client.commit(check, Operation("set_data", path, data))

    async def _read(self, from_offset: int) -> StoredRecords:
        client = self._zookeeper
        data, _ = await client.get(nodes.SNAPSHOT)
        pointer = nodes.decode_pointer(data)
        data, _ = await client.get(nodes.END)
        end_offset = nodes.decode_number(data)
        snapshot: tuple[bytes, ...] | None = None
        if from_offset < pointer.start_offset:
            paths = [f"{nodes.SNAPSHOTS}/{pointer.name}/{number}" for number in range(pointer.pieces)]
            pieces = await self._data_of(paths)
            snapshot = tuple(nodes.decode_records(b"".join(pieces))) if pieces else ()
            from_offset = pointer.start_offset
        from_offset = max(from_offset, 0)
        return StoredRecords(snapshot, await self._records(from_offset, end_offset), from_offset, end_offset)

    async def _records(self, from_offset: int, end_offset: int) -> tuple[bytes, ...]:
        """The records of the log between two offsets. Raises NoNodeError when it is moved away meanwhile."""
        if from_offset >= end_offset:
            return ()
        try:
            records = await self._batch(from_offset)
        except NoNodeError:
            records = []
        if from_offset + len(records) < end_offset:
            offsets = nodes.log_offsets(await self._zookeeper.children(nodes.LOG))
            first = max((offset for offset in offsets if offset <= from_offset), default=None)
            if first is None:
                raise NoNodeError
            wanted = [offset for offset in offsets if first <= offset < end_offset]
            records = []
            for position in range(0, len(wanted), READS_AT_ONCE):
                for batch in await asyncio.gather(*map(self._batch, wanted[position : position + READS_AT_ONCE])):
                    records += batch
            records = records[from_offset - first :]
        if from_offset + len(records) < end_offset:
            raise StoreError(f"{self._hosts}{self._root}: the metadata log lacks records before {end_offset}")
        return tuple(records[: end_offset - from_offset])

    async def _batch(self, offset: int) -> list[bytes]:
        data, _ = await self._zookeeper.get(nodes.log_path(offset))
        pieces = nodes.batch_of(data).pieces
        rest = await self._data_of([nodes.log_path(offset, number) for number in range(1, pieces)])
        return nodes.decode_records(b"".join((data, *rest)))

    async def _data_of(self, paths: Sequence[str]) -> list[bytes]:
        return [data for data, _ in await asyncio.gather(*map(self._zookeeper.get, paths))]

    async def _write_snapshot(
        self, pieces: Sequence[bytes], pointer: nodes.SnapshotPointer, controller_epoch: int
    ) -> nodes.SnapshotPointer:
        """Write a snapshot and move the pointer to it; returns where it pointed before."""
        data, status = await self._zookeeper.get(nodes.SNAPSHOT)
        before = nodes.decode_pointer(data)
        if before == pointer:
            return before
        check = await self._epoch_check(controller_epoch)
        path = f"{nodes.SNAPSHOTS}/{pointer.name}"
        await self._put(path, b"", check)
        for number, piece in enumerate(pieces):
            await self._put(f"{path}/{number}", piece, check)
        await self._zookeeper.commit(check, Operation("set_data", nodes.SNAPSHOT, pointer.encode(), status.version))
        return before

    async def _remove_before(
        self, before: nodes.SnapshotPointer, newest: nodes.SnapshotPointer, controller_epoch: int
    ) -> None:
        """Remove what was there before the last snapshot but one, and snapshots that nobody finished.

        For the controller alone: a snapshot that is not known here may be the one that its successor goes by.
        """
        client = self._zookeeper
        check = await self._epoch_check(controller_epoch)
        kept = {before.name, newest.name}
        for name in await client.children(nodes.SNAPSHOTS):
            if name not in kept:
                path = f"{nodes.SNAPSHOTS}/{name}"
                await self._remove([*(f"{path}/{piece}" for piece in await client.children(path)), path], check)
        names = await client.children(nodes.LOG)
        old = [name for name in names if int(name.partition("-")[0]) < before.start_offset]
        # The node of an append goes before its pieces: what is left of it by a crash is nothing.
        paths = [f"{nodes.LOG}/{name}" for name in sorted(old, key=lambda name: ("-" in name, name))]
        await self._remove(paths, check)

    async def _remove(self, paths: Sequence[str], check: Operation) -> None:
        for position in range(0, len(paths), DELETES_AT_ONCE):
            await self._zookeeper.commit(
                check, *(Operation("delete", path) for path in paths[position : position + DELETES_AT_ONCE])
            )

    # Watches.

    def _on_lost(self) -> None:
        if self._session is not None:
            self._session = self._seen = None
            _tell(self._session_watchers)

    def _look_at_all(self) -> None:
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
                    await self._guarded(self._repeated(look))
                except StoreError as error:
                    # A watch that was not set again would never tell of anything.
                    self._news.add(look)
                    logger.debug("the metadata store cannot be watched, trying again: %s", error)
                    await timer.sleep(LOOK_AGAIN_MS)
        finally:
            timer.close()
            self._is_looking = False

    async def _look_for_the_first_time(self) -> _Seen:
        sessions = tuple(Session(each.broker_id, each.epoch) for each in await self._brokers())
        data, _ = await self._zookeeper.get(nodes.END)
        return _Seen(nodes.decode_number(data), sessions, await self._controller())

    async def _look_at_log(self) -> None:
        data, _ = await self._zookeeper.get(nodes.END, self._on_log)
        end_offset = nodes.decode_number(data)
        if self._seen is not None and end_offset > self._seen.end_offset:
            self._seen.end_offset = end_offset
            _tell(self._watchers, end_offset)

    def _on_log(self) -> None:
        self._look_soon(self._look_at_log)

    async def _look_at_brokers(self) -> None:
        sessions = tuple(Session(each.broker_id, each.epoch) for each in await self._brokers(self._on_brokers))
        if self._seen is not None and sessions != self._seen.sessions:
            self._seen.sessions = sessions
            _tell(self._broker_watchers)
            # The controller's session may be one of those that ended.
            self._look_soon(self._look_at_controller)

    def _on_brokers(self) -> None:
        self._look_soon(self._look_at_brokers)

    async def _look_at_controller(self) -> None:
        controllership = await self._controller(self._on_controller)
        if self._seen is not None and controllership != self._seen.controllership:
            self._seen.controllership = controllership
            _tell(self._controller_watchers)

    def _on_controller(self) -> None:
        self._look_soon(self._look_at_controller)

    async def _look_at_session(self) -> None:
        session = self._session
        if session is None:
            return
        await self._zookeeper.exists(f"{nodes.BROKER_IDS}/{session.broker_id}", self._on_session)
        own = await self._broker(session.broker_id)
        if session == self._session and (own is None or own.epoch != session.broker_epoch):
            self._session = self._seen = None
            _tell(self._session_watchers)

    def _on_session(self) -> None:
        self._look_soon(self._look_at_session)


def first_nodes(cluster_id: str, layout: int) -> Iterable[Operation]:
    """What makes the nodes of a cluster that has decided nothing yet, in one transaction."""
    election, pointer = nodes.ElectionNode(), nodes.SnapshotPointer()
    for path, data in (
        ("/cluster", b""),
        (nodes.CLUSTER_ID, nodes.encode_cluster_id(cluster_id)),
        ("/brokers", b""),
        (nodes.BROKER_IDS, b""),
        (nodes.BROKER_EPOCH, nodes.encode_number(0)),
        (nodes.CONTROLLER_EPOCH, nodes.encode_number(0)),
        ("/metadata", b""),
        (nodes.LAYOUT, nodes.encode_number(layout)),
        (nodes.ELECTION, election.encode()),
        (nodes.END, nodes.encode_number(0)),
        (nodes.LOG, b""),
        (nodes.SNAPSHOT, pointer.encode()),
        (nodes.SNAPSHOTS, b""),
    ):
        yield Operation("create", path, data)


def _tell(callbacks: Iterable[Callable[..., object]], *args: object) -> None:
    for callback in callbacks:
        try:
            callback(*args)
        except Exception:
            # What happened in the store happened, whatever those who are told of it make of that.
            logger.exception("one who watches the metadata store failed")
