"""The ZooKeeper engine: the metadata of brokers on many hosts, in an ensemble that the operator has.

ZooKeeperElection   sessions of brokers, elections of controllers
ZooKeeperLog        the metadata log and its snapshots
ZooKeeperWatching   what changes, told to those who watch
ZooKeeperAccess     the connection that they share, and what is asked again

A write whose answer was lost is made again as it was. It carries a token: when its node is there already, the token
says whether it is this write's.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kazoo.exceptions import NodeExistsError, NoNodeError

from ottla import __version__
from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.interface import (
    SESSION_TIMEOUT_MS,
    Controllership,
    LiveBroker,
    Session,
    StoredRecords,
    StoreError,
    UnknownOutcomeError,
)
from ottla.metadata.store.watchers import StoreWatchers
from ottla.metadata.store.zookeeper_access import ATTEMPTS_MAX, ZooKeeperAccess
from ottla.metadata.store.zookeeper_client import NotConnectedError, Operation, Refusal, ZooKeeperClient
from ottla.metadata.store.zookeeper_election import ZooKeeperElection
from ottla.metadata.store.zookeeper_log import ZooKeeperLog
from ottla.metadata.store.zookeeper_security import NO_SECURITY, ZooKeeperSecurity
from ottla.metadata.store.zookeeper_watching import ZooKeeperWatching
from ottla.model.newer_release import needs_newer_release
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ZooKeeperStore(StoreWatchers):
    """A `MetadataStore` below a node of a ZooKeeper ensemble."""

    def __init__(
        self,
        hosts: str,
        root: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rng: Rng | None = None,
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        """`hosts` as in `a:2181,b:2181`; `root` is "" or a path without a slash at its end."""
        super().__init__()
        self._security = security
        self._rng = rng or SystemRng()
        self._tasks = Tasks("ottla-zookeeper", threads_max=1)
        self._access = ZooKeeperAccess(hosts, root, session_timeout_ms)
        self._election = ZooKeeperElection(self._access)
        self._log = ZooKeeperLog(self._access, self._election)
        self._watching = ZooKeeperWatching(self._access, self._election, self._tasks, self)
        self._is_closed = False

    async def open(self, new_cluster_id: str) -> str:
        """Connect, and make the nodes at the first start. Raises StoreError, and InvalidSettingError for its keys."""
        access, watching = self._access, self._watching
        if access.opened is None:
            client = access.opened = ZooKeeperClient(
                access.hosts, access.root, access.session_timeout_ms, self._tasks, security=self._security
            )
            client.on_lost = watching.lose
            client.on_silence = self.tell_controller
            client.on_connected = watching.look_at_all
            try:
                await client.connect(access.session_timeout_ms / 1000)
            except NotConnectedError as error:
                raise StoreError(f"{access.hosts}: {error}: start ZooKeeper, or correct where it is") from error
        return await access.guarded(self._open(new_cluster_id))

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored secret, or the new one when there is none."""
        return await self._access.repeated(lambda: self._cluster_secret(new_secret))

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session; an older one of the same id and directory ends. Raises BrokerIdTakenError."""
        self._watching.end()
        writer = self._rng.token_bytes(16).hex()
        node = nodes.BrokerNode(broker_id, 0, takes_over, registration, writer)
        session = await self._access.repeated(lambda: self._election.register(node))
        await self._watching.begin(session)
        return session

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker id."""
        brokers = await self._access.guarded(self._election.brokers())
        return [LiveBroker(each.broker_id, each.epoch, each.registration) for each in brokers]

    async def controller(self) -> Controllership:
        """The newest election."""
        return await self._access.guarded(self._election.controller())

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Make the session's broker the controller, if `seen_epoch` is still the newest epoch.

        Raises FencedError and SessionExpiredError.
        """
        writer = self._rng.token_bytes(16).hex()

        async def attempt() -> int:
            self._log.forget()  # other controllers may have appended since this one last did
            return await self._election.elect(session, seen_epoch, writer)

        return await self._access.repeated(attempt)

    async def resign(self, *, controller_epoch: int) -> None:
        """Have nobody be the controller until the next election. Raises FencedError."""
        await self._access.repeated(lambda: self._election.resign(controller_epoch))

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none, durably. Raises FencedError, StaleOffsetError and UnknownOutcomeError."""
        if not records:
            return expected_end_offset
        writer = self._rng.token_bytes(16)
        pieces = nodes.encode_batch(records, controller_epoch, writer)
        end_offset = expected_end_offset + len(records)

        async def attempt() -> None:
            await self._log.append(pieces, writer, controller_epoch, expected_end_offset, end_offset)

        try:
            await self._access.repeated(attempt)
        except NotConnectedError as error:
            self._log.forget()
            raise UnknownOutcomeError(f"{self._access.hosts}: {error}") from error
        self._watching.grown(end_offset)
        return end_offset

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on, with the snapshot when it starts before it."""
        return await self._access.repeated(lambda: self._log.read(from_offset))

    async def probe(self) -> int:
        """The end offset. Servers that are too few to write answer nobody."""
        data, _ = await self._access.guarded(self._access.client.get(nodes.END))
        return nodes.decode_number(data)

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Replace the records below `end_offset` by a snapshot. Raises FencedError."""
        pieces = nodes.encode_batch(snapshot, controller_epoch, self._rng.token_bytes(16))
        name = f"{end_offset:020}-{self._rng.token_bytes(4).hex()}"
        pointer = nodes.SnapshotPointer(end_offset, name, len(pieces))
        before = await self._access.repeated(lambda: self._log.write_snapshot(pieces, pointer, controller_epoch))
        await self._access.guarded(self._log.remove_before(before, pointer, controller_epoch))

    async def close(self) -> None:
        """End the session and disconnect. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watching.close()
        client, self._access.opened = self._access.opened, None
        if client is not None:
            await client.close()
        await self._tasks.close()

    async def _open(self, new_cluster_id: str) -> str:
        client = self._access.client
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
                            f"{self._access.hosts}{self._access.root or '/'} is another software's: "
                            "give Ottla a node of its own"
                        ) from refusal
                continue
            if nodes.decode_number(layout) == nodes.LAYOUT_BEING_FILLED:
                raise StoreError(f"{self._access.where}: metadata is being moved there: wait, or begin the move again")
            if nodes.decode_number(layout) != nodes.LAYOUT_VERSION:
                where = self._access.where
                release = await self._written_by()
                raise StoreError(needs_newer_release(where, layout.decode(), nodes.LAYOUT_VERSION, release))
            await self._require_closed()
            return nodes.decode_cluster_id(data)
        raise StoreError(f"{self._access.where}: other processes change it all the time")

    async def _written_by(self) -> str | None:
        try:
            data, _ = await self._access.client.get(nodes.WRITTEN_BY)
        except NoNodeError:
            return None
        return data.decode(errors="replace")

    async def _require_closed(self) -> None:
        """Nodes that were created for everybody are refused where they are to be for one: the secret may be known."""
        for path in (nodes.LAYOUT, nodes.CLUSTER_SECRET):
            try:
                is_exposed = await self._access.client.is_exposed(path)
            except NoNodeError:
                continue
            if is_exposed:
                raise StoreError(
                    f"{self._access.where}{path} can be opened by others than {self._security.owner}: "
                    f"run `setAcl -R {self._access.root or '/'} auth::cdrwa` in zkCli.sh as that user"
                )

    async def _cluster_secret(self, new_secret: bytes) -> bytes:
        try:
            await self._access.client.create(nodes.CLUSTER_SECRET, new_secret)
        except NodeExistsError:
            new_secret, _ = await self._access.client.get(nodes.CLUSTER_SECRET)
        return new_secret


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
        (nodes.WRITTEN_BY, __version__.encode()),
        (nodes.ELECTION, election.encode()),
        (nodes.END, nodes.encode_number(0)),
        (nodes.LOG, b""),
        (nodes.SNAPSHOT, pointer.encode()),
        (nodes.SNAPSHOTS, b""),
    ):
        yield Operation("create", path, data)
