"""One connection to another broker, made when somebody wants to send, and the next when it has ended."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from ottla.client.errors import BrokerUnreachableError, ClientError, ConnectionLostError
from ottla.client.io.retry import Backoff, Deadline
from ottla.peers.peer_connection import PeerConnection
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

RECONNECT_BACKOFF: Final = Backoff(10, 250)
"""Less than Kafka's clients wait: brokers are few, and wait for each other. A process that dies takes connections for
some milliseconds more, and its clients ask the others at once who leads now."""


class BrokerChannel:
    """Belongs to the event loop.

    Whoever wants the connection while it is being made shares the attempt and its outcome; after an attempt that failed
    the next one waits a while before it begins.
    """

    __slots__ = (
        "_attempt",
        "_connect",
        "_connection",
        "_failures",
        "_is_closed",
        "_last_error",
        "_name",
        "_on_lost",
        "_rng",
        "_tasks",
        "_timer",
    )

    def __init__(
        self,
        name: str,
        connect: Callable[[], Coroutine[Any, Any, PeerConnection]],
        on_lost: Callable[[], None],
        *,
        timer: Timer,
        rng: Rng,
        tasks: Tasks,
    ) -> None:
        """`name` is for messages; `on_lost` is called when a connection has ended that was not closed here."""
        self._name = name
        self._connect = connect
        self._on_lost = on_lost
        self._timer = timer
        self._rng = rng
        self._tasks = tasks
        self._connection: PeerConnection | None = None
        self._attempt: asyncio.Future[PeerConnection] | None = None
        self._failures = 0
        self._last_error: ClientError | None = None
        self._is_closed = False

    async def connection(self, deadline: Deadline) -> PeerConnection:
        """The connection; nothing has been sent when this raises: ClientError, which says why there is none."""
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        self._require_open()
        attempt = self._attempt
        if attempt is None:
            attempt = self._attempt = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._try(attempt), f"connecting to {self._name}")
        try:
            async with asyncio.timeout(deadline.left_ms / 1000):
                return await asyncio.shield(attempt)
        except TimeoutError:
            why = f": {self._last_error}" if self._last_error is not None else ""
            raise BrokerUnreachableError(
                f"no connection to {self._name} within {deadline.timeout_ms} ms{why}"
            ) from self._last_error

    def close(self) -> None:
        """End the connection; unanswered requests fail with ConnectionLostError, and so does whoever waits for it. No
        other is made.
        """
        self._is_closed = True
        if self._attempt is not None:
            _fail(self._attempt, self._closed_error())
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _try(self, attempt: asyncio.Future[PeerConnection]) -> None:
        try:
            if self._failures:
                await self._timer.sleep(RECONNECT_BACKOFF.delay_ms(self._failures - 1, self._rng))
            self._require_open()
            connection = await self._connect()
            try:
                self._require_open()
            except ClientError:
                connection.close()
                raise
        except ClientError as error:
            self._failures += 1
            self._last_error = error
            self._end(attempt)
            _fail(attempt, error)
        except Exception as error:
            # To be told that one is cancelled is to end, for most who wait; only this attempt has.
            self._failures += 1
            self._end(attempt)
            _fail(attempt, BrokerUnreachableError(f"no connection to {self._name}: {error!r}"))
            raise
        except BaseException:
            self._end(attempt)
            attempt.cancel()
            raise
        else:
            self._failures = 0
            self._last_error = None
            self._connection = connection
            connection.on_closed = partial(self._lost, connection)
            self._end(attempt)
            attempt.set_result(connection)
            if connection.closed:
                self._lost(connection)

    def _end(self, attempt: asyncio.Future[PeerConnection]) -> None:
        assert self._attempt is attempt
        self._attempt = None

    def _lost(self, connection: PeerConnection) -> None:
        if self._connection is connection and not self._is_closed:
            self._connection = None
            self._on_lost()

    def _require_open(self) -> None:
        if self._is_closed:
            raise self._closed_error()

    def _closed_error(self) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self._name} was closed: the cluster has changed")


def _fail(attempt: asyncio.Future[PeerConnection], error: ClientError) -> None:
    if not attempt.done():
        attempt.set_exception(error)
        attempt.exception()  # whoever wanted it may be gone; that is no reason to complain
