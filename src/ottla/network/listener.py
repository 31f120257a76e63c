"""A listening address and its connections."""

from __future__ import annotations

import asyncio
import errno
import logging
import select
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.model.principal import ANONYMOUS, Principal
from ottla.native import read_ahead
from ottla.network.address import Address
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.connection_services import ConnectionServices
from ottla.network.flow_control import FlowControl
from ottla.network.listening_socket import bound_sockets, listen
from ottla.network.metrics import NetworkMetrics
from ottla.network.reactor import Reactor
from ottla.network.read_ahead import ReadAhead
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.request_memory import RequestMemory
from ottla.network.request_receiver import RequestReceiver
from ottla.network.sockets import LoopSockets, Sockets
from ottla.network.together import Arrival
from ottla.network.transport import SocketTransport, Transport
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.clock import Clock
from ottla.runtime.cork import Cork, NoCork
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.page_cache import read_into_page_cache, read_what_is_asked_for
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.network.handshakes import Handshakes, TlsAcceptor
    from ottla.network.tls_transport import TlsTransport

logger = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_PAUSE_MS = 200
_READING_THREADS = 4
_READ_AHEAD_THREADS = 4
"""Each has 256 KiB under way while logs are synced."""

HAS_EPOLL: Final = hasattr(select, "epoll")
"""Whether sockets are served together (`ottla.network.reactor`)."""

BindSockets = Callable[[str, int, NetworkConfig], Awaitable[list[socket.socket]]]


class Listener:
    """Accepts connections at `host`:`port` that speak `protocol`. Belongs to the event loop it is started on.

    `port` 0 lets the system choose; `address` says what it chose. An empty host stands for every interface, a host
    name for each of its addresses. Listeners that are to share limits are given the same `quotas` and `memory`. `cork`
    is told of each run of requests. `transport` takes over an accepted socket; with `tls` clients speak TLS.
    `bind_sockets` takes the addresses, and `sockets` watches what is accepted there: where there is no operating
    system, both are others.
    """

    def __init__(
        self,
        host: str,
        port: int,
        protocol: WireProtocol,
        *,
        config: NetworkConfig,
        clock: Clock,
        timer: Timer,
        name: str = "PLAINTEXT",
        quotas: ConnectionQuotas | None = None,
        memory: RequestMemory | None = None,
        cork: Cork | None = None,
        transport: Callable[[socket.socket], Transport] = SocketTransport.of,
        tls: TlsAcceptor | None = None,
        bind_sockets: BindSockets = bound_sockets,
        sockets: Callable[[asyncio.AbstractEventLoop], Sockets] | None = None,
    ) -> None:
        self.name = name
        self.metrics = NetworkMetrics()
        self._host = host
        self._port = port
        self._protocol = protocol
        self._config = config if protocol.limits is None else protocol.limits(config)
        self._clock = clock
        self._timer = timer
        self._quotas = quotas or ConnectionQuotas(config.max_connections, config.max_connections_per_ip)
        self._memory = memory
        self._cork = cork or NoCork()
        self._transport = transport
        self._tls = protocol.tls if tls is None else tls
        self._handshakes: Handshakes | None = None
        self._bind_sockets = bind_sockets
        self._watching = sockets
        self._throttle = LogThrottle(logger, clock)
        self._tasks = Tasks(f"{name} reading", threads_max=_READING_THREADS)
        self._tasks_ahead = Tasks(f"{name} read-ahead", threads_max=_READ_AHEAD_THREADS)
        self._read_ahead = ReadAhead(self._ask_for)
        self._sockets: list[socket.socket] = []
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._refused: dict[socket.socket, str] = {}
        self._services: ConnectionServices | None = None
        self._all_closed: asyncio.Event | None = None

    @property
    def address(self) -> Address:
        """Where it listens; the first address when there are several."""
        return Address.of(self._sockets[0].getsockname())

    @property
    def connections(self) -> frozenset[Connection]:
        """The open connections."""
        return frozenset(self._connections)

    async def bind(self) -> None:
        """Take the address; clients that come before `start` are refused.

        Raises ListenError, which says what is wrong with the address and what to do.
        """
        self._sockets = await self._bind_sockets(self._host, self._port, self._config)

    async def start(self) -> None:
        """Accept connections; takes the address first when `bind` has not. Raises ListenError."""
        if not self._sockets:
            await self.bind()
        loop = asyncio.get_running_loop()
        config = self._config
        if self._memory is None:
            self._memory = RequestMemory(
                config.queued_max_request_bytes,
                stalled_ms=config.stalled_request_ms,
                clock=self._clock,
                timer=self._timer,
                call_soon=loop.call_soon,
            )
        self._services = ConnectionServices(
            listener_name=self.name,
            config=config,
            loop=loop,
            clock=self._clock,
            timer=self._timer,
            memory=self._memory,
            metrics=self.metrics,
            throttle=self._throttle,
            on_closed=self._on_closed,
            cork=self._cork,
            shed=self._shed,
            flow=FlowControl(config),
            framing=self._protocol.framing,
            together=self._protocol.together,
            wait_for_disk=self._wait_for_disk,
            on_found=self._read_ahead.found,
            sockets=self._sockets_of(loop, self._memory),
        )
        if self._tls is not None:
            from ottla.network.handshakes import Handshakes  # a broker of plaintext reads nothing of TLS

            self._handshakes = Handshakes(
                loop,
                self._timer,
                self._throttle,
                self._tls.context,
                self._on_secured,
                lambda peer: self._quotas.release(peer.host),
                lambda: self.address,
            )
        listen(self._sockets, config)
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._on_acceptable, listening)

    def _sockets_of(self, loop: asyncio.AbstractEventLoop, memory: RequestMemory) -> Sockets:
        if self._watching is not None:
            return self._watching(loop)
        return Reactor(loop, self._clock, memory, self._cork, self._take_together) if HAS_EPOLL else LoopSockets(loop)

    def _take_together(self, received: list[Arrival], buffer: ReceiveBuffer, now_ms: int) -> list[Arrival]:
        """Have what can be served as one of what was received together served so; returns what is left."""
        together, metrics = self._protocol.together, self.metrics
        if together is None or len(received) < 2 or metrics.out_bytes > self._config.out_bytes_hard_max:
            return received
        clear = RequestReceiver.clear_of(received, now_ms)
        others: list[Arrival] = []
        if len(clear) < len(received):
            are_clear = set(map(id, clear))
            others = [each for each in received if id(each) not in are_clear]
        left = together.take(clear, buffer) + others
        metrics.requests += len(received) - len(left)
        metrics.bytes_in += received[-1][2] - received[0][1] - sum([end - begin for _, begin, end in left])
        return left

    async def close(self, drain_ms: int = 0) -> None:
        """Accept no more, read no more, send what is answered within `drain_ms`, then close what is left."""
        self._stop_accepting()
        if self._connections and drain_ms > 0:
            self._all_closed = asyncio.Event()
            deadline = self._timer.schedule(drain_ms, self._all_closed.set)
            for connection in tuple(self._connections):
                connection.drain()
            await self._all_closed.wait()
            deadline.cancel()
        for connection in tuple(self._connections):
            connection.close()
        if self._handshakes is not None:
            await self._handshakes.close()
        for sock in tuple(self._refused):
            self._end_refused(sock)
        if self._services is not None:
            self._services.sockets.close()
            self._services = None
        await self._tasks.close()
        await self._tasks_ahead.close()

    def adopt(self, sock: socket.socket, local: Address, principal: Principal) -> None:
        """Serve a socket that is connected already, as if it had been accepted at `local`; who is there is known.

        Raises OSError when there may be no more connections, or the socket is gone.
        """
        refusal = self._quotas.admit(local.host)
        if refusal is not None:
            raise OSError(errno.EMFILE, refusal)
        sock.setblocking(False)
        self._begin(self._transport(sock), local, local, principal)

    def _stop_accepting(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()

    def _on_acceptable(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._pause_accepting(listening, error)
                return
            self._admit(sock, Address.of(peer))
            pause_ms = self._quotas.accept_pause_ms(self._clock.monotonic_ms())
            if pause_ms:
                self._stop_accepting_for(listening, pause_ms)
                return

    def _pause_accepting(self, listening: socket.socket, error: OSError) -> None:
        """Without a free file descriptor the socket stays readable; let the loop do other work for a while."""
        self._throttle.warning(
            "cannot accept connections at %s: %s; raise the limit on open files (ulimit -n) or lower max.connections",
            self.address,
            error,
        )
        self._stop_accepting_for(listening, _ACCEPT_PAUSE_MS)

    def _stop_accepting_for(self, listening: socket.socket, pause_ms: int) -> None:
        """Clients that come meanwhile wait in the queue of the operating system."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if listening in self._sockets:
                loop.add_reader(listening.fileno(), self._on_acceptable, listening)

        self._timer.schedule(pause_ms, resume)

    def _admit(self, sock: socket.socket, peer: Address) -> None:
        refusal = self._quotas.admit(peer.host)
        if refusal is not None:
            self.metrics.connections_refused += 1
            self._throttle.warning("refused a connection from %s to %s: %s", peer, self.address, refusal)
            sock.close()
            return
        refusal_ms = self._quotas.refusal_ms(peer.host, self._clock.monotonic_ms())
        if refusal_ms:
            self._refuse_later(sock, peer, refusal_ms)
            return
        try:
            self._configure(sock)
            if self._handshakes is not None:
                self._handshakes.begin(sock, peer)
            else:
                self._connect(sock, self._transport(sock), peer, ANONYMOUS)
        except OSError:  # it is gone already
            sock.close()
            self._quotas.release(peer.host)

    def _on_secured(self, sock: socket.socket, transport: TlsTransport, peer: Address) -> None:
        """A client's handshake is over."""
        assert self._tls is not None
        try:
            self._connect(sock, transport, peer, self._tls.principal_of(transport.session))
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError):
                self._throttle.warning("closed the connection from %s to %s: %s", peer, self.address, error)
            transport.close()
            self._quotas.release(peer.host)

    def _connect(self, sock: socket.socket, transport: Transport, peer: Address, principal: Principal) -> None:
        """Begin a connection. Raises OSError when the socket is gone."""
        self._begin(transport, Address.of(sock.getsockname()), peer, principal)

    def _begin(self, transport: Transport, local: Address, peer: Address, principal: Principal) -> None:
        services = self._services
        assert services is not None
        connection = Connection(transport, local, peer, services, principal)
        self.metrics.connections_accepted += 1
        self.metrics.connections_open += 1
        self._connections[connection] = None
        try:
            connection.start(self._protocol.connect(connection))
        except Exception:
            logger.exception("could not create a handler for %r", connection)
            connection.close()

    def _refuse_later(self, sock: socket.socket, peer: Address, refusal_ms: int) -> None:
        """Its address is over its quota: nothing is read of this connection, which counts until it is closed."""
        self.metrics.connections_refused += 1
        self._throttle.warning(
            "refused a connection from %s to %s: its IP is over the quota connection_creation_rate", peer, self.address
        )
        self._refused[sock] = peer.host
        self._timer.schedule(refusal_ms, partial(self._end_refused, sock))

    def _end_refused(self, sock: socket.socket) -> None:
        host = self._refused.pop(sock, None)
        if host is not None:
            sock.close()
            self._quotas.release(host)

    def _configure(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._config.socket_send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.socket_send_buffer_bytes)

    def _wait_for_disk(self, piece: FileSlice, then: Callable[[OSError | None], None]) -> None:
        self._tasks.spawn(self._wait_in_thread(piece, then), "read ahead")
        if self._read_ahead.missed(piece):
            read_what_is_asked_for(piece.fd)

    async def _wait_in_thread(self, piece: FileSlice, then: Callable[[OSError | None], None]) -> None:
        error: OSError | None = None
        try:
            await self._tasks.in_thread(read_into_page_cache, piece.fd, piece.position, piece.size)
        except OSError as mistake:
            error = mistake.with_traceback(None)
        then(error)

    def _ask_for(self, piece: FileSlice) -> None:
        # The slice goes along: it holds the file open.
        self._tasks_ahead.spawn(self._tasks_ahead.in_thread(_ask_for, piece), "read ahead")

    def _shed(self) -> None:
        """Close those who have not moved for the longest time and have responses to take, until they fit again."""
        assert self._services is not None
        for connection in self._services.flow.to_shed(self._connections, self.metrics.out_bytes):
            connection.close(
                f"it has not taken {connection.pending_bytes} bytes of responses, and all together "
                f"{self.metrics.out_bytes} bytes wait to be read"
            )

    def _on_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._quotas.release(connection.peer.host)
        self.metrics.connections_open -= 1
        if self._all_closed is not None and not self._connections:
            self._all_closed.set()


def _ask_for(piece: FileSlice) -> None:
    """Nobody waits for it: what cannot be read is said to whom it is to be sent. BLOCKING."""
    with suppress(OSError):
        read_ahead(piece.fd, piece.position, piece.size)
