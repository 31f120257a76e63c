"""TLS handshakes of clients that have just connected; a connection begins when its handshake is over.

    accepted --> waits for the client --> queue --> a step, in a thread --> waits ... --> then(its transport)
                                                                       `--> failed, with a line in the log

The first step signs and agrees on keys, and that of a client with a certificate looks at that: the loop does something
else meanwhile. Other steps are cheap, and done on the loop. The thread has the sockets of a few at a time, and nobody
closes one of those before they are back.

What strangers may have of the broker is limited:

number    `HANDSHAKES_MAX` at a time; the one that began first is closed for one more
time      `HANDSHAKE_MS` from the first byte to the last
CPU       one thread, `STEPS_MAX` steps in one go; a turn of the loop does cheap ones for `TURN_NS`, and always one;
          the others wait in the order in which they came
"""

import asyncio
import logging
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
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.security.tls_failures import why_client_failed

logger = logging.getLogger(__name__)

HANDSHAKES_MAX: Final = 1_000
"""Handshakes under way at a listener: at 200 a second each has five seconds."""

HANDSHAKE_MS: Final = 10_000
TURN_NS: Final = 1_000_000
STEPS_MAX: Final = 8
"""Steps of the thread in one go; those that are over by then begin their connections in one turn of the loop."""

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

    __slots__ = ("context", "deadline", "failure", "is_in_thread", "peer", "socket", "transport")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, peer: Address) -> None:
        self.socket = sock
        self.context = context
        self.peer = peer
        self.transport: TlsTransport | None = None  # nothing was received yet
        self.is_in_thread = False  # which has its socket
        self.failure: str | None = None  # why it failed while it was there
        self.deadline: TimerTask | None = None

    @property
    def is_cheap(self) -> bool:
        """Whether its next step takes less than to have it done elsewhere: keys are agreed on, and there is no
        certificate to be looked at.
        """
        return self.transport is not None and self.context.verify_mode is ssl.CERT_NONE


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
        self._tasks = Tasks("TLS handshakes", threads_max=1)
        self._cheap: deque[_Handshake] = deque()
        self._is_stepping = self._is_scheduled = self._is_closing = False

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def begin(self, sock: socket.socket, peer: Address) -> None:
        """Take over an accepted socket, which does not block. Raises OSError when it is gone already."""
        handshake = _Handshake(sock, self._context(), peer)
        if len(self._under_way) >= self._handshakes_max:
            first = next((each for each in self._under_way if not each.is_in_thread), None)
            if first is not None:
                self._fail(first, f"more than {self._handshakes_max} handshakes are under way, and its began first")
        self._under_way[handshake] = None
        handshake.deadline = self._timer.schedule(HANDSHAKE_MS, lambda: self._on_late(handshake))
        self._loop.add_reader(sock.fileno(), self._on_readable, handshake)

    async def close(self) -> None:
        """End all that are under way."""
        self._is_closing = True
        self._ready.clear()
        self._cheap.clear()
        await self._tasks.close()
        for handshake in tuple(self._under_way):
            self._forget(handshake)
            self._hang_up(handshake)

    def _on_readable(self, handshake: _Handshake) -> None:
        self._loop.remove_reader(handshake.socket.fileno())
        self._enqueue(handshake)

    def _on_writable(self, handshake: _Handshake) -> None:
        self._loop.remove_writer(handshake.socket.fileno())
        self._enqueue(handshake)

    def _enqueue(self, handshake: _Handshake) -> None:
        if handshake.is_cheap:
            self._cheap.append(handshake)
            if not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._turn)
            return
        self._ready.append(handshake)
        if not self._is_stepping and not self._is_closing:
            self._is_stepping = True
            self._tasks.spawn(self._step_all(), "handshakes")

    def _turn(self) -> None:
        """Do cheap steps."""
        self._is_scheduled = False
        ends_ns = monotonic_ns() + TURN_NS
        while self._cheap:
            handshake = self._cheap.popleft()
            if handshake in self._under_way:
                self._stepped(handshake, _step(handshake))
                if monotonic_ns() >= ends_ns:
                    break
        if self._cheap:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    async def _step_all(self) -> None:
        try:
            while self._ready:
                batch: list[_Handshake] = []
                while self._ready and len(batch) < STEPS_MAX:
                    handshake = self._ready.popleft()
                    if handshake.failure is None and handshake in self._under_way:
                        handshake.is_in_thread = True
                        batch.append(handshake)
                for handshake, outcome in zip(batch, await self._tasks.in_thread(_step_each, batch), strict=True):
                    try:
                        self._stepped(handshake, outcome)
                    except Exception:
                        logger.exception("the end of a handshake of %s failed", handshake.peer)
        finally:
            self._is_stepping = False

    def _stepped(self, handshake: _Handshake, outcome: bool | str) -> None:
        """A step is done: the handshake is over, or goes on, or failed for a reason."""
        handshake.is_in_thread = False
        sock, transport = handshake.socket, handshake.transport
        if handshake.failure is not None:
            self._fail(handshake, handshake.failure)
        elif isinstance(outcome, str):
            self._fail(handshake, outcome)
        elif outcome:
            assert transport is not None
            self._forget(handshake)
            self._on_secured(sock, transport, handshake.peer)
        elif transport is not None and transport.has_output:
            self._loop.add_writer(sock.fileno(), self._on_writable, handshake)
        else:
            self._loop.add_reader(sock.fileno(), self._on_readable, handshake)

    def _on_late(self, handshake: _Handshake) -> None:
        self._fail(handshake, f"its TLS handshake was not over after {HANDSHAKE_MS} ms")

    def _fail(self, handshake: _Handshake, reason: str) -> None:
        if handshake.is_in_thread:
            handshake.failure = reason
            return
        if reason:
            self._throttle.warning("closed the connection from %s to %s: %s", handshake.peer, self._where(), reason)
        self._forget(handshake)
        self._hang_up(handshake)

    def _hang_up(self, handshake: _Handshake) -> None:
        _discard_input(handshake.socket)
        handshake.socket.close()
        self._on_failed(handshake.peer)

    def _forget(self, handshake: _Handshake) -> None:
        del self._under_way[handshake]
        if handshake.deadline is not None:
            handshake.deadline.cancel()
        self._loop.remove_reader(handshake.socket.fileno())
        self._loop.remove_writer(handshake.socket.fileno())


def _step_each(handshakes: list[_Handshake]) -> list[bool | str]:
    """Go on with each as far as what has arrived allows: whether it is over, or why it has failed, which is empty where
    that is not worth a word.
    """
    return [_step(each) for each in handshakes]


def _step(handshake: _Handshake) -> bool | str:
    sock = handshake.socket
    try:
        if handshake.transport is None:
            first = _peek(sock)
            if first is None:
                return False
            said = describe_instead_of_tls(first)
            if said is not None:
                return said
            handshake.transport = TlsTransport(sock, handshake.context)
        return handshake.transport.shake_hands()
    except ConnectionError:
        return ""
    except (OSError, ValueError) as error:
        return why_client_failed(error)
    except Exception:
        logger.exception("a handshake of %s failed", handshake.peer)
        return ""


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
