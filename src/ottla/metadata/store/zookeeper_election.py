"""Sessions of brokers and elections of controllers, in ZooKeeper.

register    check nobody else has the id, raise /brokers/epoch, make the ephemeral node
elect       check the own broker node, raise /controller_epoch from the version that was seen, make /controller anew
resign      check /controller_epoch, delete /controller
"""

import asyncio
from collections.abc import Callable

from kazoo.exceptions import NoNodeError

from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.conditions import require_live_session, require_newest_epoch
from ottla.metadata.store.interface import (
    BrokerIdTakenError,
    Controllership,
    Session,
)
from ottla.metadata.store.zookeeper_access import ZooKeeperAccess
from ottla.metadata.store.zookeeper_client import Operation


class ZooKeeperElection:
    """Belongs to the event loop. Each method is one attempt: its caller repeats it (`ZooKeeperAccess.repeated`)."""

    def __init__(self, access: ZooKeeperAccess) -> None:
        self._access = access
        self._controller_epoch: tuple[int, int] | None = None
        """A controller epoch and the version of its node."""
        access.before_repeating(self.forget)

    def forget(self) -> None:
        """Ask for the controller epoch before it is relied on again."""
        self._controller_epoch = None

    async def register(self, node: nodes.BrokerNode) -> Session:
        """Begin the session of a broker. Raises BrokerIdTakenError."""
        client = self._access.client
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
                    f"{self._access.session_timeout_ms} ms ago: give this one another node.id"
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

    async def brokers(self, watch: Callable[[], None] | None = None) -> list[nodes.BrokerNode]:
        """All sessions, by broker id; `watch` is called once when others come or go."""
        names = await self._access.client.children(nodes.BROKER_IDS, watch)
        found = await asyncio.gather(*(self.broker(int(name)) for name in sorted(names, key=int)))
        return [node for node in found if node is not None]

    async def broker(self, broker_id: int) -> nodes.BrokerNode | None:
        """The session of a broker."""
        try:
            data, _ = await self._access.client.get(f"{nodes.BROKER_IDS}/{broker_id}")
        except NoNodeError:
            return None
        return nodes.decode_broker(broker_id, data)

    async def controller(self, watch: Callable[[], None] | None = None) -> Controllership:
        """The newest election; `watch` is called once when there is another, or its session ends."""
        client = self._access.client
        if watch is not None:
            await client.exists(nodes.CONTROLLER, watch)
        data, _ = await client.get(nodes.ELECTION)
        elected = nodes.decode_election(data)
        # Whether it is alive is asked after who it is: of an election in between one hears as of one after it.
        is_there = await client.exists(nodes.CONTROLLER) is not None
        broker = await self.broker(elected.broker_id) if is_there else None
        is_alive = broker is not None and broker.epoch == elected.broker_epoch
        return Controllership(elected.broker_id, elected.epoch, is_alive)

    async def elect(self, session: Session, seen_epoch: int, writer: str) -> int:
        """Make a broker the controller; returns the new epoch. Raises FencedError, SessionExpiredError."""
        client = self._access.client
        data, status = await client.get(nodes.CONTROLLER_EPOCH)
        epoch = nodes.decode_number(data)
        if epoch != seen_epoch:
            data, _ = await client.get(nodes.ELECTION)
            if epoch == seen_epoch + 1 and nodes.decode_election(data).writer == writer:
                self._controller_epoch = epoch, status.version
                return epoch
            require_newest_epoch(seen_epoch, epoch)
        own = await self.broker(session.broker_id)
        require_live_session(session, is_alive=own is not None and own.epoch == session.broker_epoch)
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

    async def resign(self, controller_epoch: int) -> None:
        """Have nobody be the controller. Raises FencedError."""
        check = await self.epoch_check(controller_epoch)
        status = await self._access.client.exists(nodes.CONTROLLER)
        if status is not None:
            await self._access.client.commit(check, Operation("delete", nodes.CONTROLLER, status.version))

    async def epoch_check(self, controller_epoch: int) -> Operation:
        """What has a transaction fail once there is another controller. Raises FencedError when there is already."""
        if self._controller_epoch is None or self._controller_epoch[0] != controller_epoch:
            data, status = await self._access.client.get(nodes.CONTROLLER_EPOCH)
            self._controller_epoch = nodes.decode_number(data), status.version
        newest, version = self._controller_epoch
        require_newest_epoch(controller_epoch, newest)
        return Operation("check", nodes.CONTROLLER_EPOCH, version)
