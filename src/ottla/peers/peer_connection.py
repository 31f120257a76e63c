"""What the brokers need of a connection to each other, beyond what a client needs."""

from collections.abc import Callable
from typing import Protocol

from ottla.client.address import Address
from ottla.client.io.client_io import Connection
from ottla.client.options import ClientOptions


class PeerConnection(Connection, Protocol):
    """A connection that tells of its end and whose versions can be agreed on again."""

    on_closed: Callable[[], None] | None
    """Called once when it has ended, whoever ended it."""

    async def agree_on_versions(self, timeout_ms: int) -> None:
        """Ask which versions the other side serves: a proven broker is told of more."""
        ...


class PeerIo(Protocol):
    """Where connections come from: `ottla.client.io.asyncio_io.AsyncioIo`, or a simulated network."""

    async def connect(self, address: Address, options: ClientOptions) -> PeerConnection:
        """Connect and agree on versions; raises as `ottla.client.io.client_io.ClientIo.connect`."""
        ...
