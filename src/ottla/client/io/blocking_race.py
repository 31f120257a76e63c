"""Which of several addresses answers first, for a thread that blocks: none that hangs is waited for.

Each attempt goes on when its socket is ready, so that one thread has several:

    connecting -- writable --> (TLS handshake) --> asked for versions -- readable --> connection
        |                           |                    |
        +--- refused, too late -----+--------------------+--- closed, too late ---> next address
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.client.address import Address
from ottla.client.errors import NO_CONNECTION, ClientError, RequestTimedOutError
from ottla.client.io.client_io import Waiting
from ottla.client.io.retry import Deadline
from ottla.client.io.unreachable import not_a_broker, unreachable
from ottla.client.options import ClientOptions
from ottla.client.tls import TlsSource
from ottla.runtime.clock import Clock

if TYPE_CHECKING:
    from ottla.client.io.secure_socket import SecureSocket


class Negotiating(Protocol):
    """A connection before its first exchange is done."""

    def ask_for_versions(self, timeout_ms: int) -> None:
        """Send the first request."""
        ...

    def agree_on_versions(self, timeout_ms: int) -> None:
        """Take its answer."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


C = TypeVar("C", bound=Negotiating)


class BlockingRace(Generic[C]):
    """One race. `make` makes a connection of an address and its connected socket."""

    def __init__(
        self,
        addresses: Sequence[Address],
        options: ClientOptions,
        clock: Clock,
        waiting: Waiting,
        make: Callable[[Address, socket.socket | SecureSocket], C],
    ) -> None:
        self._left = list(addresses)
        self._options = options
        self._clock = clock
        self._waiting = waiting
        self._make = make
        self._attempts: list[_Attempt[C]] = []
        self._selector = selectors.DefaultSelector()
        self._next = Deadline(clock, 0)
        self.errors: dict[Address, ClientError] = {}

    def run(self) -> tuple[C | None, dict[Address, ClientError]]:
        """The connection that is made first, and why others were not; see `ClientIo.connect_first`."""
        with ExitStack() as around:
            around.callback(self._selector.close)
            around.callback(self._abandon)
            while self._left or self._attempts:
                if self._left and (self._next.passed or not self._attempts):
                    self._begin(self._left.pop(0))
                made = self._step()
                if made is not None:
                    return made, self.errors
        return None, self.errors

    def _abandon(self) -> None:
        for attempt in self._attempts:
            attempt.abandon()

    def _begin(self, address: Address) -> None:
        self._next = Deadline(self._clock, self._options.next_address_after_ms)
        attempt = _Attempt(address, self._options, self._clock, self._selector, self._make)
        attempt.around.enter_context(self._waiting(address))
        self._attempts.append(attempt)
        self._carry_on(attempt, attempt.begin)

    def _step(self) -> C | None:
        """Wait until something can go on, and let it."""
        if not self._attempts:
            return None
        waits_ms = [each.deadline.left_ms for each in self._attempts] + ([self._next.left_ms] if self._left else [])
        for key, _ in self._selector.select(min(waits_ms) / 1000):
            attempt: _Attempt[C] = key.data
            made = self._carry_on(attempt, attempt.on_ready)
            if made is not None:
                self._attempts.remove(attempt)
                return made
        for attempt in [each for each in self._attempts if each.deadline.passed]:
            self._carry_on(attempt, attempt.on_late)
        return None

    def _carry_on(self, attempt: _Attempt[C], step: Callable[[], C | None]) -> C | None:
        try:
            return step()
        except NO_CONNECTION as error:
            self.errors[attempt.address] = error
            attempt.abandon()
            self._attempts.remove(attempt)
            self._next = Deadline(self._clock, 0)
            return None


class _Attempt(Generic[C]):
    def __init__(
        self,
        address: Address,
        options: ClientOptions,
        clock: Clock,
        selector: selectors.BaseSelector,
        make: Callable[[Address, socket.socket | SecureSocket], C],
    ) -> None:
        self.address = address
        self.around = ExitStack()
        self.deadline = Deadline(clock, options.connect_timeout_ms)
        self._options = options
        self._clock = clock
        self._selector = selector
        self._make = make
        self._places: list[tuple[Any, ...]] = []
        self._socket: socket.socket | None = None
        self._secured: SecureSocket | None = None  # in place of the socket, from the handshake on
        self._watched: int | None = None
        self._connection: C | None = None

    def begin(self) -> None:
        """Look the name up, and begin to connect. The look-up alone blocks. Raises BrokerUnreachableError."""
        try:
            self._places = socket.getaddrinfo(*self.address, type=socket.SOCK_STREAM)
        except OSError as error:
            raise unreachable(self.address, error) from error
        self._connect(OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL)))

    def on_ready(self) -> C | None:
        """The socket has something to tell. Raises what `NO_CONNECTION` names."""
        if self._connection is None:
            if self._secured is not None:
                self._shake_hands(self._secured)
                return None
            assert self._socket is not None
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._connect(OSError(number, os.strerror(number)))
            elif self._options.tls is None:
                self._ask(self._socket)
            else:
                self._secure(self._options.tls, self._socket)
            return None
        try:
            self._connection.agree_on_versions(self.deadline.left_ms or 1)
        except NO_CONNECTION as error:
            raise not_a_broker(self.address, error, is_encrypted=self._options.tls is not None) from error
        made, self._connection = self._connection, None
        self._forget_socket()
        self._socket = self._secured = None
        self.around.close()
        return made

    def on_late(self) -> None:
        """The time is over. Raises BrokerUnreachableError."""
        if self._connection is None:
            raise unreachable(self.address, TimeoutError())
        raise not_a_broker(self.address, RequestTimedOutError("no answer"), is_encrypted=self._options.tls is not None)

    def abandon(self) -> None:
        """End what there is."""
        self._forget_socket()
        if self._connection is not None:
            self._connection.close()
        for each in (self._secured, self._socket):
            if each is not None:
                each.close()
        self.around.close()

    def _connect(self, error: OSError) -> None:
        """Begin to connect to the next place of the name; `error` is that of the one before."""
        while self._places:
            self._forget_socket()
            if self._socket is not None:
                self._socket.close()
            family, kind, protocol, _, where = self._places.pop(0)
            try:
                self._socket = socket.socket(family, kind, protocol)
                self._socket.setblocking(False)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                number = self._socket.connect_ex(where)
            except OSError as failed:
                error = failed
                continue
            if number in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                self._watch(self._socket, selectors.EVENT_WRITE)
                return
            error = OSError(number, os.strerror(number))
        raise unreachable(self.address, error) from error

    def _secure(self, tls: TlsSource, sock: socket.socket) -> None:
        """Begin the TLS handshake on a connected socket."""
        self._forget_socket()
        try:
            from ottla.client.io.secure_socket import SecureSocket  # OpenSSL, which clients of plaintext do without

            self._secured = SecureSocket(sock, tls.context(), self.address.host)
        except OSError as error:
            raise unreachable(self.address, error) from error
        self._socket = None
        self._shake_hands(self._secured)

    def _shake_hands(self, secured: SecureSocket) -> None:
        import ssl

        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(secured, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(secured, selectors.EVENT_WRITE)
        except OSError as error:
            raise unreachable(self.address, error, is_encrypted=True) from error
        else:
            self._ask(secured)

    def _ask(self, sock: socket.socket | SecureSocket) -> None:
        self.deadline = Deadline(self._clock, self._options.handshake_timeout_ms)
        self._connection = self._make(self.address, sock)
        try:
            self._connection.ask_for_versions(self._options.handshake_timeout_ms)
        except NO_CONNECTION as error:
            raise not_a_broker(self.address, error, is_encrypted=self._options.tls is not None) from error
        self._watch(sock, selectors.EVENT_READ)

    def _watch(self, sock: socket.socket | SecureSocket, events: int) -> None:
        self._forget_socket()
        self._watched = sock.fileno()
        self._selector.register(self._watched, events, self)

    def _forget_socket(self) -> None:
        if self._watched is not None:
            self._selector.unregister(self._watched)
            self._watched = None
