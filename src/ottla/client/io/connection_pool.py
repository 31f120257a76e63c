"""The connections of one client: at most one for each broker and lane, and a way in before any broker is known."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import IntEnum
from typing import Any

from ottla.client.address import Address
from ottla.client.errors import NO_CONNECTION, BrokerUnreachableError, ConnectionLostError
from ottla.client.io.client_io import ClientIo, Connection
from ottla.client.io.cluster_metadata import BrokerNode
from ottla.client.io.troubles import Troubles
from ottla.client.io.unreachable import connecting, elsewhere
from ottla.client.options import ClientOptions

logger = logging.getLogger(__name__)

_BOOTSTRAP_NODE = -1


class Lane(IntEnum):
    """Requests that may wait long at the broker have connections of their own, as answers come in order."""

    GENERAL = 0
    FETCH = 1
    COORDINATOR = 2
    PRODUCE = 3
    """Where a blocking producer sends requests ahead of their answers."""


class ConnectionPool:
    """Connects on demand; whoever asks for a connection that is being made waits for it."""

    def __init__(self, options: ClientOptions, io: ClientIo, troubles: Troubles) -> None:
        self._options = options
        self._io = io
        self._troubles = troubles
        self._connections: dict[tuple[int, Lane], Connection] = {}
        self._connecting: dict[tuple[int, Lane], AbstractAsyncContextManager[Any]] = {}
        self._bootstrap_turn = 0
        self.closed = False

    def close(self) -> None:
        """End all connections; no others are made."""
        self.closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def open_connection(self, node_id: int, lane: Lane) -> Connection | None:
        """The connection to a broker when there is one."""
        connection = self._connections.get((node_id, lane))
        return connection if connection is not None and not connection.closed else None

    async def any_connection(self, brokers: Mapping[int, BrokerNode]) -> Connection:
        """A connection to some broker: one that is open, else to the one of these and the bootstrap that answers first.

        One that has just left a request unanswered is used only if no other can be: it may stand still.
        """
        async with self._exclusion(_BOOTSTRAP_NODE, Lane.GENERAL):
            silent = self._silent_addresses()
            opened = [
                connection
                for (_, lane), connection in self._connections.items()
                if lane == Lane.GENERAL and not connection.closed
            ]
            for connection in opened:
                if connection.address not in silent:
                    return connection
            nodes = self._nodes_by_address(brokers)
            preferred = [address for address in nodes if address not in silent]
            try:
                return await self._first_connection(nodes, preferred or list(nodes))
            except NO_CONNECTION:
                if not preferred or not silent:
                    raise
                self._forgive(silent)
                others = [address for address in nodes if address in silent]
                return opened[0] if opened else await self._first_connection(nodes, others)

    def _silent_addresses(self) -> set[Address]:
        """Of brokers whose last connection on some lane ended because a request was not answered in time."""
        return {each.address for each in self._connections.values() if each.timed_out}

    def _forgive(self, addresses: Collection[Address]) -> None:
        for key, each in list(self._connections.items()):
            if each.timed_out and each.address in addresses:
                del self._connections[key]

    def _nodes_by_address(self, brokers: Mapping[int, BrokerNode]) -> dict[Address, int]:
        """Where to try, in this order: known brokers from a random one on, then bootstrap addresses in turn."""
        known = list(brokers.values())
        first = self._io.rng.randbelow(len(known)) if known else 0
        nodes = {node.address: node.node_id for node in known[first:] + known[:first]}
        bootstrap = self._options.bootstrap
        # The next time begin with the next address: this one may accept connections and not answer.
        turn = self._bootstrap_turn % len(bootstrap)
        self._bootstrap_turn += 1
        for address in bootstrap[turn:] + bootstrap[:turn]:
            nodes.setdefault(address, _BOOTSTRAP_NODE)
        return nodes

    async def _first_connection(self, nodes: Mapping[Address, int], addresses: Sequence[Address]) -> Connection:
        if self.closed:
            raise ConnectionLostError("this client is closed")

        def waiting(address: Address) -> AbstractContextManager[None]:
            is_advertised = address not in self._options.bootstrap
            return self._troubles.waiting(connecting(nodes[address] if is_advertised else None, address))

        made, errors = await self._io.connect_first(addresses, self._options, waiting)
        for address, error in errors.items():
            logger.debug("broker %d: %s", nodes[address], error)
        if made is None:
            told = [errors[each] for each in self._options.bootstrap if each in errors] or list(errors.values())
            raise told[0] if len(told) == 1 else BrokerUnreachableError("; ".join(map(str, told)))
        node_id = nodes[made.address]
        opened = self.open_connection(node_id, Lane.GENERAL)  # somebody has asked for this broker meanwhile
        if opened is not None or self.closed:
            made.close()
        if self.closed:
            raise ConnectionLostError("this client is closed")
        if opened is None:
            self._connections[node_id, Lane.GENERAL] = made
        return opened or made

    async def connection(self, node: BrokerNode, lane: Lane) -> Connection:
        """The connection to a broker, made when there is none."""
        connection = self.open_connection(node.node_id, lane)
        if connection is not None:
            return connection
        async with self._exclusion(node.node_id, lane):
            connection = self.open_connection(node.node_id, lane)
            return connection or await self._connect(node.node_id, lane, node.address)

    async def _connect(self, node_id: int, lane: Lane, address: Address) -> Connection:
        if self.closed:
            raise ConnectionLostError("this client is closed")
        is_advertised = address not in self._options.bootstrap
        try:
            with self._troubles.waiting(connecting(node_id if is_advertised else None, address)):
                connection = await self._io.connect(address, self._options)
        except BrokerUnreachableError as error:
            if not is_advertised:
                raise
            raise elsewhere(node_id, error) from error
        self._connections[node_id, lane] = connection
        return connection

    def _exclusion(self, node_id: int, lane: Lane) -> AbstractAsyncContextManager[Any]:
        exclusion = self._connecting.get((node_id, lane))
        if exclusion is None:
            exclusion = self._connecting[node_id, lane] = self._io.exclusion()
        return exclusion
