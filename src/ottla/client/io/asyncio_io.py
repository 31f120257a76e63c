"""Connections on the event loop."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar, cast

from ottla.client.address import Address
from ottla.client.errors import ClientError, ConnectionLostError, ProtocolViolationError, RequestTimedOutError
from ottla.client.io.client_io import R, Waiting
from ottla.client.io.correlation import Correlation
from ottla.client.io.first_to_answer import first_to_answer
from ottla.client.io.frame_reader import FrameReader
from ottla.client.io.handshake import Handshake
from ottla.client.io.unreachable import lost, not_a_broker, unreachable, unreadable
from ottla.client.io.version_table import VersionTable
from ottla.client.options import ClientOptions
from ottla.client.sasl import ClientSasl
from ottla.model.errors import InvalidInputError
from ottla.protocol import frame as wire
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks, run_together
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

T = TypeVar("T")

_OF_LOGIN = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class AsyncioConnection(asyncio.BufferedProtocol):
    """A connection to one broker on the running loop: requests are pipelined and answered in order."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self._address = address
        self._reader = FrameReader(options.response_bytes_max)
        self._correlation: Correlation[asyncio.Future[memoryview]] = Correlation(options.client_id)
        self._turns = asyncio.Semaphore(options.in_flight_requests_max)
        self._transport: asyncio.Transport | None = None
        self._error: ClientError | None = None
        self._versions = VersionTable({})
        self._held: list[Callable[[], None]] | None = None
        self._tasks = Tasks("login")
        self._renewal: TimerTask | None = None
        self.on_closed: Callable[[], None] | None = None
        """Called once when it has ended, whoever ended it."""

    @property
    def address(self) -> Address:
        """Where the broker was reached."""
        return self._address

    @property
    def versions(self) -> VersionTable:
        """What the broker said it serves."""
        return self._versions

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def timed_out(self) -> bool:
        """Whether it ended because the broker did not answer a request in time."""
        return isinstance(self._error, RequestTimedOutError)

    def fileno(self) -> int:
        """The number of its socket, -1 where it has none."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if sock is None else int(sock.fileno())

    async def agree_on_versions(self, timeout_ms: int) -> None:
        """The first exchange; nothing else may be sent before it."""
        handshake = Handshake()
        table = None
        while table is None:
            answer = self._send(handshake.request(), handshake.version)
            table = handshake.answer(await self._answer(answer, "ApiVersions", timeout_ms))
        self._versions = table

    async def log_in(self, sasl: ClientSasl, rng: Rng, timer: Timer, timeout_ms: int) -> None:
        """Prove who the client is, and again before the broker would end the session."""
        from ottla.client.io.login import RENEWED_AT, log_in  # only who logs in needs it

        lifetime_ms = await log_in(self, sasl, rng, timeout_ms, partial(_token, sasl))
        if lifetime_ms:

            def renew() -> None:
                if not self.closed:
                    self._tasks.spawn(self._log_in_again(sasl, rng, timer, timeout_ms), "renewal of the session")

            self._renewal = timer.schedule(int(lifetime_ms * RENEWED_AT), renew)

    async def _log_in_again(self, sasl: ClientSasl, rng: Rng, timer: Timer, timeout_ms: int) -> None:
        """What is sent meanwhile waits: the broker takes nothing else."""
        held = self._held = []
        try:
            await self.log_in(sasl, rng, timer, timeout_ms)
        except ClientError as error:
            self._end(error)
        finally:
            self._held = None
            for send in held:
                send()

    async def request(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> R:
        """Send a request and wait for its answer; see `Connection.request`."""
        async with self._turns:
            return await self.send(message, response, timeout_ms=timeout_ms)()

    def send(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> Callable[[], Awaitable[R]]:
        """Send a request now and return what to call and await for its answer.

        No coroutine exists before the call: a task that is cancelled before it began leaves none that Python warns of.

        Unlike `request` it takes no turn: requests go out in the order of the calls, and the caller bounds how many are
        unanswered.
        """
        version = self._versions.choose(type(message))
        answer = self._send(message, version)
        return partial(self._decoded, answer, message.API_KEY, version, timeout_ms, response)

    def send_unanswered(self, message: ApiMessage) -> None:
        """Send a request that the broker does not answer: Produce with acks=0."""
        version = self._versions.choose(type(message))
        if self._held is not None:
            self._held.append(lambda: self._write_if_open(message, version, None))
            return
        self._write(self._correlation.request(message, version, None))

    def close(self) -> None:
        """End the connection; unanswered requests fail with ConnectionLostError."""
        self._end(ConnectionLostError(f"connection to {self._address} closed by this client"))

    async def _decoded(
        self, answer: asyncio.Future[memoryview], api_key: int, version: int, timeout_ms: int, response: type[R]
    ) -> R:
        frame = await self._answer(answer, response.__name__.removesuffix("Response"), timeout_ms)
        try:
            _, message = wire.decode_response(api_key, version, frame)
        except InvalidInputError as error:
            self._end(unreadable(self._address, error))
            assert self._error is not None
            raise self._error from error
        return cast("R", message)

    async def _answer(self, answer: asyncio.Future[memoryview], what: str, timeout_ms: int) -> memoryview:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            error = RequestTimedOutError(f"{self._address} did not answer {what} within {timeout_ms} ms")
            self._end(error)
            raise error from None

    def _send(self, message: ApiMessage, version: int) -> asyncio.Future[memoryview]:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        if self._held is not None and message.API_KEY not in _OF_LOGIN:
            self._held.append(lambda: self._write_if_open(message, version, answer))
        else:
            self._write(self._correlation.request(message, version, answer))
        return answer

    def _write_if_open(self, message: ApiMessage, version: int, answer: asyncio.Future[memoryview] | None) -> None:
        """Send what was held back."""
        if not self.closed:
            self._write(self._correlation.request(message, version, answer))
        elif answer is not None and not answer.done():
            answer.set_exception(self._error or lost(self._address, None))
            answer.exception()

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise self._error or lost(self._address, None)
        self._transport.write(data)

    def _end(self, error: ClientError) -> None:
        if self._error is None:
            self._error = error
        if self._renewal is not None:
            self._renewal.cancel()
        if self._transport is not None:
            self._transport.abort()
        for waiter in self._correlation.abandon():
            if not waiter.done():
                waiter.set_exception(self._error)
                waiter.exception()  # whoever sent the request may be gone; that is no reason to complain

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where to put what arrives."""
        del sizehint
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: that many bytes arrived."""
        try:
            for frame in self._reader.received(nbytes):
                waiter, _, _ = self._correlation.response(frame)
                if not waiter.done():
                    waiter.set_result(frame)
        except ProtocolViolationError as error:
            self._end(unreadable(self._address, error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, once, whoever ended the connection."""
        self._end(lost(self._address, exc, len(self._correlation)))
        if self.on_closed is not None:
            self.on_closed()


async def _token(sasl: ClientSasl) -> str:
    if not sasl.asks_for_tokens:
        return sasl.token()
    asking = Tasks("token", threads_max=1)
    try:
        return await asking.in_thread(sasl.token)
    finally:
        await asking.close()


async def _connected(address: Address, options: ClientOptions) -> AsyncioConnection:
    """A connection to the first place of an address that takes one. Raises OSError, that of the first if none does.

    The name is looked up here: uvloop's `create_connection` leaves a look-up behind where it is cancelled, and when
    that one fails Python writes a traceback.
    """
    loop = asyncio.get_running_loop()
    context = None if options.tls is None else options.tls.context()
    refused: OSError | None = None
    for _, _, _, _, place in await loop.getaddrinfo(*address, type=socket.SOCK_STREAM):
        host, port, *rest = place
        try:
            _, connection = await loop.create_connection(
                lambda: AsyncioConnection(address, options),
                f"{host}%{rest[1]}" if any(rest[1:]) else str(host),
                int(port),
                ssl=context,
                server_hostname=None if context is None else address.host,
            )
        except OSError as error:
            refused = refused or error
        else:
            return connection
    raise refused or OSError(f"{address.host} has no address")


class AsyncioIo:
    """A `ClientIo` on the running event loop."""

    def __init__(self, clock: Clock | None = None, rng: Rng | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.rng: Rng = rng or SystemRng()
        self._timer: Timer | None = None

    async def connect(self, address: Address, options: ClientOptions) -> AsyncioConnection:
        """Connect and agree on versions; see `ClientIo.connect`."""
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                connection = await _connected(address, options)
        except (OSError, TimeoutError) as error:
            raise unreachable(address, error, is_encrypted=options.tls is not None) from error
        try:
            await connection.agree_on_versions(options.handshake_timeout_ms)
            if options.sasl is not None:
                await connection.log_in(options.sasl, self.rng, self._own_timer(), options.handshake_timeout_ms)
        except (ConnectionLostError, RequestTimedOutError) as error:
            connection.close()
            raise not_a_broker(address, error, is_encrypted=options.tls is not None) from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_first(
        self, addresses: Sequence[Address], options: ClientOptions, waiting: Waiting
    ) -> tuple[AsyncioConnection | None, dict[Address, ClientError]]:
        """Connect to whichever address answers first; see `ClientIo.connect_first`."""

        async def connect(address: Address) -> AsyncioConnection:
            with waiting(address):
                return await self.connect(address, options)

        return await first_to_answer(addresses, connect, options.next_address_after_ms)

    async def pause(self, delay_ms: int) -> None:
        """Do nothing for a while."""
        await self._own_timer().sleep(delay_ms)

    def _own_timer(self) -> Timer:
        if self._timer is None:
            self._timer = Timer(self.clock, asyncio.get_running_loop().call_later)
        return self._timer

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of all, in order, run beside each other; the first that fails ends the others."""
        return await run_together(coroutines)

    def exclusion(self) -> AbstractAsyncContextManager[Any]:
        """A new lock."""
        return asyncio.Lock()
