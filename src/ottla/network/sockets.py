"""Who watches the sockets of a listener: all together (`ottla.network.reactor`), or each by the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.network.socket_watch import LoopSocketWatch

if TYPE_CHECKING:
    import asyncio

    from ottla.network.socket_watch import SocketOwner, SocketWatch


class Flushable(Protocol):
    """What sends for a connection (`ottla.network.response_sender`)."""

    def flush(self) -> None:
        """Send what is ready."""
        ...


class Sockets(Protocol):
    """Who watches the sockets of a listener."""

    is_turning: bool
    """Whether what is `unsent` is sent in a moment anyway."""
    unsent: dict[Any, None]
    """Who has asked to be flushed, in this order."""

    def watch(self, fd: int, owner: SocketOwner, *, is_plain: bool) -> SocketWatch:
        """A watch over a socket that is not watched for anything yet. `is_plain`: its bytes are what its owner reads
        and sends.
        """
        ...

    def flush_soon(self, sender: Flushable) -> None:
        """Have it send what is ready before the turn of the loop is over."""
        ...

    def close(self) -> None:
        """All sockets are closed."""
        ...


class LoopSockets:
    """Each socket for itself, by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_turning = False
        self.unsent: dict[Any, None] = {}

    def watch(self, fd: int, owner: SocketOwner, *, is_plain: bool) -> SocketWatch:
        """As `Sockets` says."""
        return LoopSocketWatch(self._loop, fd, owner)

    def flush_soon(self, sender: Flushable) -> None:
        """As `Sockets` says."""
        self._loop.call_soon(sender.flush)

    def close(self) -> None:
        """Nothing to do."""
