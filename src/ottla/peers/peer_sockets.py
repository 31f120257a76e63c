"""Connections to other brokers over TCP."""

from ottla.client.address import Address
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.runtime.retransmission import retransmit_soon


class PeerSockets(AsyncioIo):
    """A `PeerIo` whose connections are heard of again soon after the network was cut."""

    async def connect(self, address: Address, options: ClientOptions) -> AsyncioConnection:
        """Connect and agree on versions; raises as `ottla.client.io.client_io.ClientIo.connect`."""
        connection = await super().connect(address, options)
        retransmit_soon(connection.fileno())
        return connection
