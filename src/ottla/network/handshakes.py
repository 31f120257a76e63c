"""TLS handshakes of clients that have just connected; a connection begins when its handshake is over.

    accepted --> waits for the client --> queue --> a step, on the loop --> waits ... --> then(its transport)
                                                                                `--> failed, with a line in the log

What strangers may have of the broker is limited:

number    `HANDSHAKES_MAX` at a time; the one that began first is closed for one more
time      `HANDSHAKE_MS` from the first byte to the last
CPU       a turn of the loop does steps for `TURN_NS`, and always one; the others wait for the next turns
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from ottla.model.principal import Principal
from ottla.network.address import Address
from ottla.network.tls_transport import TlsTransport
from ottla.network.wrong_protocol import describe_instead_of_tls
from ottla.runtime.clock import monotonic_ns
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.security.tls_failures import why_client_failed

HANDSHAKES_MAX: Final = 1_000
"""Handshakes under way at a listener: at 200 a second each has five seconds."""

HANDSHAKE_MS: Final = 10_000
TURN_NS: Final = 1_000_000

_PEEKED_BYTES: Final = 8
_DISCARDED_BYTES: Final = 64 * 1024


class TlsAcceptor(Protocol):
    """What a listener needs to know to speak TLS."""

    def context(self) -> ssl.SSLContext:
        """What the next handshake is made by."""
        ...

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        """Who the client is, by the certificate that it has shown. Raises ValueError when it is nobody."""
        ...


OnSecured = Callable[[socket.socket, TlsTransport, Address], None]
"""Takes over a socket whose handshake is over."""

OnFailed = Callable[[Address], None]
"""Told of a handshake that has failed, when its socket is closed."""


class _Handshake:
    """One that is under way."""

    __slots__ = ("deadline", "is_first", "peer", "socket", "transport")

    def __init__(self, sock: socket.socket, transport: TlsTransport, peer: Address) -> None:
        self.socket = sock
        self.transport = transport
        self.peer = peer
        self.is_first = True  # nothing was received yet
        self.deadline: TimerTask | None = None


class Handshakes:
    """Those of one listener. Belongs to the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timer: Timer,
        throttle: LogThrottle,
        context: Callable[[], ssl.SSLContext],
        on_secured: OnSecured,
        on_failed: OnFailed,
        where: Callable[[], object],
        *,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        """`context` is what the next handshake is made by: keys may change. `where` is the address that clients come
        to, for the log.
        """
        self._loop = loop
        self._timer = timer
        self._throttle = throttle
        self._context = context
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._where = where
        self._handshakes_max = handshakes_max
        self._under_way: dict[_Handshake, None] = {}  # in the order in which they began
        self._ready: deque[_Handshake] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def begin(self, sock: socket.socket, peer: Address) -> None:
        """Take over an accepted socket, which does not block. Raises OSError when it is gone already."""
        handshake = _Handshake(sock, TlsTransport(sock, self._context()), peer)
        if len(self._under_way) >= self._handshakes_max:
            first = next(iter(self._under_way))
            self._fail(first, f"more than {self._handshakes_max} handshakes are under way, and its began first")
        self._under_way[handshake] = None
        handshake.deadline = self._timer.schedule(HANDSHAKE_MS, lambda: self._on_late(handshake))
        self._loop.add_reader(sock.fileno(), self._on_readable, handshake)

    def close(self) -> None:
        """End all that are under way."""
        for handshake in tuple(self._under_way):
            self._forget(handshake)
            handshake.socket.close()
            self._on_failed(handshake.peer)

    def _on_readable(self, handshake: _Handshake) -> None:
        self._loop.remove_reader(handshake.socket.fileno())
        self._enqueue(handshake)

    def _on_writable(self, handshake: _Handshake) -> None:
        self._loop.remove_writer(handshake.socket.fileno())
        self._enqueue(handshake)

    def _enqueue(self, handshake: _Handshake) -> None:
        self._ready.append(handshake)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        ends_ns = monotonic_ns() + TURN_NS
        while self._ready:
            handshake = self._ready.popleft()
            if handshake in self._under_way:
                self._step(handshake)
                if monotonic_ns() >= ends_ns:
                    break
        if self._ready:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _step(self, handshake: _Handshake) -> None:
        sock, transport = handshake.socket, handshake.transport
        try:
            if handshake.is_first:
                first = _peek(sock)
                handshake.is_first = first is None
                said = None if first is None else describe_instead_of_tls(first)
                if said is not None:
                    self._fail(handshake, said)
                    return
            is_over = transport.shake_hands()
        except ConnectionError:
            self._fail(handshake, "")
        except (OSError, ValueError) as error:
            self._fail(handshake, why_client_failed(error))
        else:
            if is_over:
                self._forget(handshake)
                self._on_secured(sock, transport, handshake.peer)
            elif transport.has_output:
                self._loop.add_writer(sock.fileno(), self._on_writable, handshake)
            else:
                self._loop.add_reader(sock.fileno(), self._on_readable, handshake)

    def _on_late(self, handshake: _Handshake) -> None:
        self._fail(handshake, f"its TLS handshake was not over after {HANDSHAKE_MS} ms")

    def _fail(self, handshake: _Handshake, reason: str) -> None:
        if reason:
            self._throttle.warning("closed the connection from %s to %s: %s", handshake.peer, self._where(), reason)
        self._forget(handshake)
        _discard_input(handshake.socket)
        handshake.socket.close()
        self._on_failed(handshake.peer)

    def _forget(self, handshake: _Handshake) -> None:
        del self._under_way[handshake]
        if handshake.deadline is not None:
            handshake.deadline.cancel()
        self._loop.remove_reader(handshake.socket.fileno())
        self._loop.remove_writer(handshake.socket.fileno())


def _discard_input(sock: socket.socket) -> None:
    """Take what has arrived: a socket that is closed with unread bytes is reset, and the peer does not see the alert
    that says why.
    """
    with suppress(OSError):
        sock.recv(_DISCARDED_BYTES)


def _peek(sock: socket.socket) -> bytes | None:
    """The first bytes of the peer, which stay where they are; empty when it has hung up, None when there are none yet.

    Raises OSError.
    """
    try:
        return sock.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
