"""The seam between what a client decides and how it waits.

`Cluster` and `Admin` are written once, as coroutines that wait for nothing but what a `ClientIo` offers. Over
`ottla.client.asyncio_io` they share an event loop with everything else; over `ottla.client.blocking_io` every wait
blocks the calling thread, so that the same coroutine runs to its end without a loop (`run_blocking`).
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from ottla.client.address import Address
from ottla.client.options import ClientOptions
from ottla.client.version_table import VersionTable
from ottla.protocol.message import ApiMessage
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng

R = TypeVar("R", bound=ApiMessage)
T = TypeVar("T")


class Connection(Protocol):
    """A connection to one broker, with the versions agreed on."""

    @property
    def address(self) -> Address:
        """Where the broker was reached."""
        ...

    @property
    def versions(self) -> VersionTable:
        """What the broker said it serves."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more, whoever ended it."""
        ...

    async def request(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> R:
        """Send a request in the highest common version and wait for its answer, whose error codes are not looked at.

        Raises UnsupportedApiError, ConnectionLostError, RequestTimedOutError (which ends the connection, as the answer
        may still come) and ProtocolViolationError.
        """
        ...

    def close(self) -> None:
        """End the connection; unanswered requests fail with ConnectionLostError."""
        ...


class ClientIo(Protocol):
    """Connections, pauses and exclusion, in one way of waiting."""

    @property
    def clock(self) -> Clock:
        """What time it is for this client."""
        ...

    @property
    def rng(self) -> Rng:
        """Where this client draws its lots."""
        ...

    async def connect(self, address: Address, options: ClientOptions) -> Connection:
        """Connect and agree on versions. Raises BrokerUnreachableError and what `Connection.request` raises."""
        ...

    async def pause(self, delay_ms: int) -> None:
        """Do nothing for a while."""
        ...

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of all, in order; beside each other where this way of waiting allows it.

        The first failure is raised, after the others were cancelled or not begun.
        """
        ...

    def exclusion(self) -> AbstractAsyncContextManager[Any]:
        """A new lock."""
        ...
