"""The connections by which a broker is a client of its own cluster, whatever clients have to prove at its listeners.

to this broker    a pair of sockets, which nobody else can have: neither encrypted nor asked for a password
to another one    as brokers speak to each other: at the listener of the brokers, with the cluster's secret

At both ends the client is a broker, which may do everything.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachableError
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.network.address import Address as SocketAddress
from ottla.peers.peer_connection import PeerConnection
from ottla.runtime.environment import Environment

_SAME_HOST: Final = "127.0.0.1"

ConnectHere = Callable[[SocketAddress], Awaitable[socket.socket]]
"""Makes a connection to this broker, which tells its client that it was reached at an address; the client's end."""


class ConnectThere(Protocol):
    """Makes a connection to another broker, which has been told who this one is."""

    async def connect_to(self, broker_id: int, options: ClientOptions) -> PeerConnection:
        """Raises ClientError."""
        ...


class OwnClientIo(AsyncioIo):
    """A `ClientIo`. Belongs to the event loop."""

    def __init__(
        self,
        node_id: int,
        listener_name: str,
        current_image: Callable[[], MetadataImage],
        connect_here: ConnectHere,
        others: ConnectThere,
        environment: Environment,
    ) -> None:
        """`listener_name` is the listener by which brokers speak to each other."""
        super().__init__(environment.clock, environment.rng)
        self._node_id = node_id
        self._listener_name = listener_name
        self._current_image = current_image
        self._connect_here = connect_here
        self._others = others

    @property
    def bootstrap(self) -> str:
        """Where a client that uses this begins."""
        return str(_address_of(self._current_image().brokers[self._node_id], self._listener_name))

    async def connect(self, address: Address, options: ClientOptions) -> AsyncioConnection:
        """Connect to the broker that has this address, and agree on versions; see `ClientIo.connect`."""
        broker_id = self._broker_at(address)
        if broker_id != self._node_id:
            return cast("AsyncioConnection", await self._others.connect_to(broker_id, options))
        own_end = await self._connect_here(SocketAddress(*address))
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: AsyncioConnection(address, options), sock=own_end)
        try:
            await connection.agree_on_versions(options.handshake_timeout_ms)
        except BaseException:
            connection.close()
            raise
        return connection

    def _broker_at(self, address: Address) -> int:
        brokers = self._current_image().brokers.values()
        own_first = sorted(brokers, key=lambda broker: broker.broker_id != self._node_id)
        for broker in own_first:
            if _address_of(broker, self._listener_name) == address:
                return broker.broker_id
        for broker in own_first:  # where all are of one host, each is told of at the address it was asked at
            if broker.host is None and _address_of(broker, self._listener_name).port == address.port:
                return broker.broker_id
        raise BrokerUnreachableError(f"no broker of this cluster has {address} for its listener {self._listener_name}")


def _address_of(broker: BrokerImage, listener_name: str) -> Address:
    host, port = broker.endpoints.get(listener_name, (broker.host, broker.port))
    return Address(host or _SAME_HOST, port)
