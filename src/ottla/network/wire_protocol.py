"""What is spoken at a listener: where a request ends, and who takes those of a connection.

listener (address, limits)  --  wire protocol (framing, handlers)  --  gateway (what requests mean)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection
from ottla.network.connection_handler import ConnectionHandler
from ottla.network.frame_reader import Framing
from ottla.network.together import Together

if TYPE_CHECKING:
    from ottla.network.handshakes import TlsAcceptor

HandlerFactory: TypeAlias = Callable[[Connection], ConnectionHandler]


class WireProtocol(Struct, frozen=True):
    """What a gateway gives its listeners. One value may serve several listeners."""

    name: str
    """What people call it, in one word."""
    connect: HandlerFactory
    """Makes the handler of a new connection. What it raises closes the connection."""
    framing: Framing
    """Makes what cuts the bytes of a connection into requests (`ottla.network.frame_reader`)."""
    together: Together | None = None
    """Serves many requests as one, where the framing is `LengthPrefixReader`."""
    limits: Callable[[NetworkConfig], NetworkConfig] | None = None
    """What of the limits is another here: how large a request may be, or when a connection is idle. The number of
    connections and the memory for requests are those of the broker, whatever this says.
    """
    tls: "TlsAcceptor | None" = None
    """How it speaks TLS at every listener, whatever the settings of the listener say."""
