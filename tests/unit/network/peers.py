"""A listener on loopback, peers with plain sockets, and a clock that is moved by hand."""

import asyncio
import fcntl
import socket
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, overload

from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.frame_reader import Framing
from ottla.network.handshakes import TlsAcceptor
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.request_memory import RequestMemory
from ottla.network.together import Together
from ottla.network.transport import SocketTransport, Transport
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.cork import Cork
from ottla.runtime.timer import ManualTimer


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (any condition, of objects that know no events)
            await asyncio.sleep(0)


async def turns(count: int = 20) -> None:
    """Let the loop turn, to see that something does not happen."""
    for _ in range(count):
        await asyncio.sleep(0)


class Peer:
    """A client that does exactly what it is told."""

    def __init__(self, sock: socket.socket, listener: Listener) -> None:
        self.sock = sock
        self.listener = listener
        self.loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, listener: Listener, receive_buffer_bytes: int = 0) -> "Peer":
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        await asyncio.get_running_loop().sock_connect(sock, tuple(listener.address))
        return cls(sock, listener)

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.sock, data)

    def unread(self) -> int:
        """How many bytes lie at the other side that it has not read."""
        _, port = self.sock.getsockname()
        fd = next(each.fd for each in self.listener.connections if each.peer.port == port)
        (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
        return int(count)

    def wait_until_arrived(self, count: int) -> None:
        """Wait until so many bytes lie at the other side; the loop does not turn meanwhile."""
        end = time.monotonic() + 60
        while self.unread() < count:
            assert time.monotonic() < end, f"{count} bytes never came"

    async def receive(self, count: int) -> bytes:
        data = bytearray()
        async with asyncio.timeout(60):
            while len(data) < count:
                piece = await self.loop.sock_recv(self.sock, min(count - len(data), 1 << 20))
                if not piece:
                    raise ConnectionError(f"closed after {len(data)} of {count} bytes")
                data += piece
        return bytes(data)

    async def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.receive(4))
        return await self.receive(size)

    async def receive_end(self) -> bytes:
        """What comes until the other side closes."""
        data = bytearray()
        async with asyncio.timeout(60):
            try:
                while piece := await self.loop.sock_recv(self.sock, 1 << 20):
                    data += piece
            except ConnectionResetError:
                pass
        return bytes(data)

    def finish(self) -> None:
        """Send nothing more, but read on."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Be gone, and say so."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()


class Echo:
    """Answers each request with itself, at once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.closed = 0
        self.ended = 0

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        slot.send((framed(bytes(frame)),))

    def on_end_of_input(self) -> None:
        self.ended += 1

    def on_close(self) -> None:
        self.closed += 1


class Collect(Echo):
    """Keeps each request, with its buffer, until the test answers."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.requests: list[tuple[memoryview, ReceiveBuffer, ResponseSlot]] = []

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        buffer.retain()
        self.requests.append((frame, buffer, slot))

    def answer(self, index: int, payload: bytes | None = None) -> None:
        frame, buffer, slot = self.requests[index]
        slot.send((framed(bytes(frame) if payload is None else payload),))
        buffer.release()

    @property
    def payloads(self) -> list[bytes]:
        return [bytes(frame) for frame, _, _ in self.requests]


H_co = TypeVar("H_co", bound=Echo, covariant=True)


class OpenListener(Generic[H_co]):
    """A listener under test and the handlers it made."""

    def __init__(self, listener: Listener, timer: ManualTimer, handlers: Sequence[H_co]) -> None:
        self.listener = listener
        self.timer = timer
        self.handlers = handlers
        self.peers: list[Peer] = []

    async def peer(self, receive_buffer_bytes: int = 0) -> Peer:
        """A new connection, accepted."""
        before = self.listener.metrics.connections_accepted + self.listener.metrics.connections_refused
        peer = await Peer.connect(self.listener, receive_buffer_bytes)
        await until(
            lambda: self.listener.metrics.connections_accepted + self.listener.metrics.connections_refused > before
        )
        self.peers.append(peer)
        return peer

    @property
    def memory(self) -> RequestMemory:
        """The memory that the listener's requests take."""
        assert self.listener._memory is not None
        return self.listener._memory


@overload
def opened(
    *,
    config: NetworkConfig | None = None,
    cork: Cork | None = None,
    transport: Callable[[socket.socket], Transport] = SocketTransport.of,
    framing: Framing = LengthPrefixReader,
    together: Together | None = None,
    tls: TlsAcceptor | None = None,
) -> AbstractAsyncContextManager[OpenListener[Echo]]: ...
@overload
def opened(
    handler: Callable[[Connection], H_co],
    config: NetworkConfig | None = None,
    cork: Cork | None = None,
    transport: Callable[[socket.socket], Transport] = SocketTransport.of,
    framing: Framing = LengthPrefixReader,
    together: Together | None = None,
    tls: TlsAcceptor | None = None,
) -> AbstractAsyncContextManager[OpenListener[H_co]]: ...
@asynccontextmanager
async def opened(
    handler: Callable[[Connection], Any] = Echo,
    config: NetworkConfig | None = None,
    cork: Cork | None = None,
    transport: Callable[[socket.socket], Transport] = SocketTransport.of,
    framing: Framing = LengthPrefixReader,
    together: Together | None = None,
    tls: TlsAcceptor | None = None,
) -> AsyncIterator[OpenListener[Any]]:
    """A listener on a free port of loopback."""
    timer = ManualTimer()
    handlers: list[Any] = []

    def connect(connection: Connection) -> Any:
        handlers.append(handler(connection))
        return handlers[-1]

    listener = Listener(
        "127.0.0.1",
        0,
        WireProtocol("test", connect, framing, together),
        config=config or NetworkConfig(),
        clock=timer.clock,
        timer=timer,
        cork=cork,
        transport=transport,
        tls=tls,
    )
    await listener.start()
    server = OpenListener(listener, timer, handlers)
    try:
        yield server
    finally:
        for peer in server.peers:
            peer.close()
        await listener.close()
