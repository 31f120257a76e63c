"""The seam between what a client decides and how it waits.

`Cluster` and `Admin` are written once, as coroutines that wait only for calls of a `ClientIo`. With `AsyncioIo` they
share an event loop with other code. With `BlockingIo` every wait blocks the calling thread, so the same coroutine runs
to its end without a loop (`run_blocking`).
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from ottla.client.address import Address
from ottla.client.errors import ClientError
from ottla.client.io.version_table import VersionTable
from ottla.client.options import ClientOptions
from ottla.protocol.message import ApiMessage
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng

R = TypeVar("R", bound=ApiMessage)
T = TypeVar("T")


Waiting = Callable[[Address], AbstractContextManager[None]]
"""Entered while an address has not answered yet."""


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

    @property
    def timed_out(self) -> bool:
        """Whether it ended because the broker did not answer a request in time."""
        ...

    async def request(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> R:
        """Send a request in the highest common version and wait for its answer, whose error codes are not looked at.

        Raises UnsupportedApiError, ConnectionLostError, RequestTimedOutError (which closes the connection, because the
        response may still arrive) and ProtocolViolationError.
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

    async def connect_first(
        self, addresses: Sequence[Address], options: ClientOptions, waiting: Waiting
    ) -> tuple[Connection | None, dict[Address, ClientError]]:
        """As `connect`, to whichever address answers first, and why others did not; None when no address answers.

        The next address is tried when one has failed or was silent for `next_address_after_ms`.
        """
        ...

    async def pause(self, delay_ms: int) -> None:
        """Do nothing for a while."""
        ...

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of all, in order; beside each other where this way of waiting allows it.

        The first failure is raised, after the others were cancelled or not started.
        """
        ...

    def exclusion(self) -> AbstractAsyncContextManager[Any]:
        """A new lock."""
        ...
