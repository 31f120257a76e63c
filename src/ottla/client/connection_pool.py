"""The connections of one client: at most one for each broker and lane, and a way in before any broker is known."""

import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from enum import IntEnum
from typing import Any

from ottla.client.address import Address
from ottla.client.cluster_metadata import BrokerNode
from ottla.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ConnectionLostError,
    RequestTimedOutError,
)
from ottla.client.io import ClientIo, Connection
from ottla.client.options import ClientOptions

logger = logging.getLogger(__name__)

NO_CONNECTION = (BrokerUnreachableError, ConnectionLostError, RequestTimedOutError)
"""What says that a connection could not be made or did not last."""

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

    def __init__(self, options: ClientOptions, io: ClientIo) -> None:
        self._options = options
        self._io = io
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
        """A connection to some broker: one that is open, else one of these brokers', else a bootstrap address's."""
        for (_, lane), connection in self._connections.items():
            if lane == Lane.GENERAL and not connection.closed:
                return connection
        known = list(brokers.values())
        first = self._io.rng.randbelow(len(known)) if known else 0
        for node in known[first:] + known[:first]:
            try:
                return await self.connection(node, Lane.GENERAL)
            except NO_CONNECTION as error:
                logger.debug("broker %d: %s", node.node_id, error)
        return await self._bootstrap_connection()

    async def connection(self, node: BrokerNode, lane: Lane) -> Connection:
        """The connection to a broker, made when there is none."""
        connection = self.open_connection(node.node_id, lane)
        if connection is not None:
            return connection
        async with self._exclusion(node.node_id, lane):
            connection = self.open_connection(node.node_id, lane)
            return connection or await self._connect(node.node_id, lane, node.address)

    async def _bootstrap_connection(self) -> Connection:
        errors: list[ClientError] = []
        async with self._exclusion(_BOOTSTRAP_NODE, Lane.GENERAL):
            connection = self.open_connection(_BOOTSTRAP_NODE, Lane.GENERAL)
            if connection is not None:
                return connection
            for _ in self._options.bootstrap:
                # The next time begin with the next address: this one may accept connections and not answer.
                address = self._options.bootstrap[self._bootstrap_turn % len(self._options.bootstrap)]
                self._bootstrap_turn += 1
                try:
                    return await self._connect(_BOOTSTRAP_NODE, Lane.GENERAL, address)
                except NO_CONNECTION as error:
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise BrokerUnreachableError("; ".join(str(error) for error in errors))

    async def _connect(self, node_id: int, lane: Lane, address: Address) -> Connection:
        if self.closed:
            raise ConnectionLostError("this client is closed")
        connection = await self._io.connect(address, self._options)
        self._connections[node_id, lane] = connection
        return connection

    def _exclusion(self, node_id: int, lane: Lane) -> AbstractAsyncContextManager[Any]:
        exclusion = self._connecting.get((node_id, lane))
        if exclusion is None:
            exclusion = self._connecting[node_id, lane] = self._io.exclusion()
        return exclusion
