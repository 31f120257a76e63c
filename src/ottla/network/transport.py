"""What carries the bytes of a connection: a plain socket, or something that encrypts on the way."""

import socket
from collections.abc import Iterable
from typing import Protocol

from ottla.network.response_queue import Buffer


class Transport(Protocol):
    """A way to the peer that never blocks. The methods are those of a socket, and so are their errors.

    BlockingIOError says that nothing can be moved now, any other OSError that the way is lost.
    """

    @property
    def sends_files(self) -> bool:
        """Whether `os.sendfile` to `fileno` reaches the peer as it is; else files are read and given to `send`."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of `fileno` are those of the peer, and others may receive and send them."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether bytes can be sent as soon as the socket has room; not so while a handshake waits for the peer."""
        ...

    @property
    def has_input(self) -> bool:
        """Whether `recv_into` has something that the socket will not become readable for: it was taken from there."""
        ...

    @property
    def has_output(self) -> bool:
        """Whether bytes of its own (a handshake, the rest of an encrypted record) wait for room in the socket."""
        ...

    def fileno(self) -> int:
        """What the event loop watches."""
        ...

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive; how many bytes, 0 when the peer sends nothing more."""
        ...

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """Send; how many bytes were taken."""
        ...

    def sendmsg(self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0, /) -> int:
        """Send several, one after the other; how many bytes were taken."""
        ...

    def flush(self) -> None:
        """Send the bytes of its own, as far as the socket has room."""
        ...

    def close(self) -> None:
        """Let go of the socket."""
        ...


class SocketTransport(socket.socket):
    """A plain socket, which is a transport but for its name: no call stands between a connection and the system."""

    __slots__ = ()

    sends_files = True
    is_plain = True
    is_ready = True
    has_input = False
    has_output = False

    @classmethod
    def of(cls, accepted: socket.socket) -> "SocketTransport":
        """Make an accepted socket one: the same object, for a second one costs as much as the rest of accepting it."""
        accepted.__class__ = cls
        assert isinstance(accepted, cls)
        return accepted

    def flush(self) -> None:
        """Nothing to do."""
