"""Connections that block the calling thread: no event loop, no further thread, one buffer for each large answer."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.client.address import Address
from ottla.client.errors import ClientError, ConnectionLostError, ProtocolViolationError, RequestTimedOutError
from ottla.client.io.blocking_race import BlockingRace
from ottla.client.io.client_io import R, Waiting
from ottla.client.io.correlation import Correlation
from ottla.client.io.frame_reader import FrameReader
from ottla.client.io.handshake import Handshake
from ottla.client.io.retry import Deadline
from ottla.client.io.unreachable import lost, not_a_broker, unreachable, unreadable
from ottla.client.io.version_table import VersionTable
from ottla.client.options import ClientOptions
from ottla.client.sasl import ClientSasl
from ottla.model.errors import InvalidInputError
from ottla.protocol import frame as wire
from ottla.protocol.message import ApiMessage
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.rng import Rng, SystemRng

if TYPE_CHECKING:
    from ottla.client.io.secure_socket import SecureSocket

T = TypeVar("T")

PARTS_MAX = 256
"""Parts that are sent at once: systems take 1,024 at most, and nothing is gained by so many."""


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits only through a `BlockingIo`: each wait blocks, so it ends at its first step."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    coroutine.close()
    raise AssertionError("a coroutine of the blocking client waited for an event loop")


class BlockingConnection:
    """A connection to one broker over a blocking socket: one request at a time, or some sent ahead of their answers."""

    def __init__(
        self, address: Address, sock: socket.socket | SecureSocket, options: ClientOptions, clock: Clock
    ) -> None:
        self._address = address
        self._clock = clock
        self._socket = sock
        self._reader = FrameReader(options.response_bytes_max)
        self._frames: list[memoryview] = []
        self._correlation: Correlation[bool] = Correlation(options.client_id)
        self._error: ClientError | None = None
        self._versions = VersionTable({})
        self._handshake = Handshake()
        self._sasl = options.sasl
        self._renewed_by: Deadline | None = None

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
        return self._error is not None

    @property
    def timed_out(self) -> bool:
        """Whether it ended because the broker did not answer a request in time."""
        return isinstance(self._error, RequestTimedOutError)

    def ask_for_versions(self, timeout_ms: int) -> None:
        """Send the first request; `agree_on_versions` takes its answer."""
        self._send(self._handshake.request(), self._handshake.version, timeout_ms)

    def agree_on_versions(self, timeout_ms: int) -> None:
        """The rest of the first exchange; nothing else may be sent before it."""
        handshake = self._handshake
        table = handshake.answer(self._receive(handshake.request(), Deadline(self._clock, timeout_ms)))
        while table is None:
            table = handshake.answer(self._exchange(handshake.request(), handshake.version, timeout_ms))
        self._versions = table
        if self._sasl is not None:
            self._log_in(self._sasl, timeout_ms)

    def _log_in(self, sasl: ClientSasl, timeout_ms: int) -> None:
        """Prove who the client is. `_renewed_by` says when it has to do it again."""
        from ottla.client.io.login import RENEWED_AT, log_in  # only who logs in needs it

        self._renewed_by = None

        async def token() -> str:
            return sasl.token()

        lifetime_ms = run_blocking(log_in(self, sasl, SystemRng(), timeout_ms, token))
        if lifetime_ms:
            self._renewed_by = Deadline(self._clock, int(lifetime_ms * RENEWED_AT))

    def _renew_session(self, timeout_ms: int) -> None:
        """Log in again, before the broker would end the session, where no answer is waited for."""
        if (
            self._renewed_by is not None
            and self._renewed_by.passed
            and not self._correlation
            and self._sasl is not None
        ):
            self._log_in(self._sasl, timeout_ms)

    async def request(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> R:
        """Send a request and wait for its answer; see `Connection.request`."""
        assert not self._correlation, "the answers of what was sent ahead are taken first"
        self._renew_session(timeout_ms)
        version = self._versions.choose(type(message))
        return self._decoded(message, version, self._exchange(message, version, timeout_ms), response)

    def send_ahead(self, message: ApiMessage, *, timeout_ms: int) -> None:
        """Send a request; its answer is taken later by `receive`, answers coming in the order of the requests."""
        if self._error is not None:
            raise self._error
        self._renew_session(timeout_ms)
        self._send(message, self._versions.choose(type(message)), timeout_ms)

    def has_answer(self) -> bool:
        """Whether `receive` has something to take, if only the beginning of an answer or the end of the connection."""
        if self._frames or self._error is not None:
            return True
        if not isinstance(self._socket, socket.socket):
            return self._socket.has_input()
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            # `receive` will say what it is.
            return True
        return True

    def receive(self, message: ApiMessage, response: type[R], *, timeout_ms: int) -> R:
        """The answer to `message`, the oldest request that was sent ahead; raises as `request` does."""
        if self._error is not None:
            raise self._error
        frame = self._receive(message, Deadline(self._clock, timeout_ms))
        return self._decoded(message, self._versions.choose(type(message)), frame, response)

    def close(self) -> None:
        """End the connection."""
        self._end(lost(self._address, None))

    def _exchange(self, message: ApiMessage, version: int, timeout_ms: int) -> memoryview:
        if self._error is not None:
            raise self._error
        deadline = Deadline(self._clock, timeout_ms)
        self._send(message, version, timeout_ms)
        return self._receive(message, deadline)

    def _send(self, message: ApiMessage, version: int, timeout_ms: int) -> None:
        try:
            self._socket.settimeout(timeout_ms / 1000)
            send_parts(self._socket, self._correlation.request_parts(message, version, True))
        except TimeoutError:
            raise self._end(_late(self._address, message, timeout_ms)) from None
        except OSError as error:
            raise self._end(lost(self._address, error, 1)) from error
        except BaseException:
            self.close()  # a part of the request may have gone
            raise

    def _receive(self, message: ApiMessage, deadline: Deadline) -> memoryview:
        try:
            while not self._frames:
                self._socket.settimeout(max(deadline.left_ms, 1) / 1000)
                count = self._socket.recv_into(self._reader.buffer())
                if count == 0:
                    raise self._end(lost(self._address, None, 1))
                self._frames += self._reader.received(count)
                if deadline.passed and not self._frames:
                    raise TimeoutError
        except TimeoutError:
            raise self._end(_late(self._address, message, deadline.timeout_ms)) from None
        except OSError as error:
            raise self._end(lost(self._address, error, 1)) from error
        except ProtocolViolationError as error:
            raise self._end(unreadable(self._address, error)) from None
        except BaseException:
            self.close()  # interrupted, by Ctrl-C perhaps: what is asked next would be given this answer
            raise
        frame = self._frames.pop(0)
        self._correlation.response(frame)
        return frame

    def _decoded(self, message: ApiMessage, version: int, frame: memoryview, response: type[R]) -> R:
        try:
            _, answer = wire.decode_response(message.API_KEY, version, frame)
        except InvalidInputError as error:
            raise self._end(unreadable(self._address, error)) from error
        return cast("R", answer)

    def _end(self, error: ClientError) -> ClientError:
        if self._error is None:
            self._error = error
        self._socket.close()
        return self._error


def send_parts(sock: socket.socket | SecureSocket, parts: Sequence[bytes | bytearray | memoryview]) -> None:
    """Send all of these, without joining them. Raises OSError, and TimeoutError when no room is made in time."""
    waiting = deque(memoryview(each) for each in parts)
    while waiting:
        sent = sock.sendmsg(islice(waiting, PARTS_MAX))
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]


def _late(address: Address, message: ApiMessage, timeout_ms: int) -> ClientError:
    what = type(message).__name__.removesuffix("Request")
    return RequestTimedOutError(f"{address} did not answer {what} within {timeout_ms} ms")


def _connected(address: Address, options: ClientOptions) -> socket.socket | SecureSocket:
    plain = socket.create_connection(address, options.connect_timeout_ms / 1000)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.tls is None:
            return plain
        from ottla.client.io.secure_socket import SecureSocket  # OpenSSL, which clients of plaintext do without

        secured = SecureSocket(plain, options.tls.context(), address.host)
    except BaseException:
        plain.close()
        raise
    try:
        secured.do_handshake()
    except BaseException:
        secured.close()
        raise
    return secured


class BlockingIo:
    """A `ClientIo` whose every wait blocks the calling thread. `stop` ends pauses that other threads are in."""

    def __init__(self, clock: Clock | None = None, rng: Rng | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.rng: Rng = rng or SystemRng()
        self._stopped = threading.Event()

    async def connect(self, address: Address, options: ClientOptions) -> BlockingConnection:
        """Connect and agree on versions; see `ClientIo.connect`."""
        sock: socket.socket | SecureSocket
        try:
            sock = _connected(address, options)
        except OSError as error:
            raise unreachable(address, error, is_encrypted=options.tls is not None) from error
        connection = BlockingConnection(address, sock, options, self.clock)
        try:
            connection.ask_for_versions(options.handshake_timeout_ms)
            connection.agree_on_versions(options.handshake_timeout_ms)
        except (ConnectionLostError, RequestTimedOutError) as error:
            connection.close()
            raise not_a_broker(address, error, is_encrypted=options.tls is not None) from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_first(
        self, addresses: Sequence[Address], options: ClientOptions, waiting: Waiting
    ) -> tuple[BlockingConnection | None, dict[Address, ClientError]]:
        """Connect to whichever address answers first; see `ClientIo.connect_first`."""
        make = partial(BlockingConnection, options=options, clock=self.clock)
        return BlockingRace(addresses, options, self.clock, waiting, make).run()

    async def pause(self, delay_ms: int) -> None:
        """Block for a while."""
        self._stopped.wait(delay_ms / 1000)

    async def together(self, coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of all, one after the other."""
        results = []
        waiting = list(coroutines)
        try:
            while waiting:
                results.append(await waiting.pop(0))
        finally:
            for coroutine in waiting:
                coroutine.close()
        return results

    def exclusion(self) -> AbstractAsyncContextManager[Any]:
        """No lock is needed: one call runs at a time."""
        return nullcontext()

    def stop(self) -> None:
        """End all pauses, now and from now on."""
        self._stopped.set()
