"""Connections between simulated hosts, with what TCP promises and no more.

    send --> on the way: pieces, each with its time --> inbox --> receive
             | the link is cut: they wait until it is mended, as what is sent again and again
             | the other side is gone: both sides are told by a reset

Bytes of one direction arrive in order, each once. A connection may end between any two bytes of a frame. A host that
is cut off gets no notice. The port of a process that has ended refuses connections, and a host without power is
silent.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.network.response_queue import Buffer
from ottla.runtime.rng import Rng
from ottla.simulation.whole.event_loop import SimulatedLoop
from ottla.simulation.whole.process import Process, current_process

WINDOW_BYTES: Final = 256 * 1024
"""The maximum number of bytes that are sent and not received."""

DELAY_S: Final = (0.000_05, 0.001)
"""The range of latencies, in virtual seconds."""

CONNECT_AGAIN_S: Final = 1.0
"""When a connection that nobody answered is asked for again; then after twice that."""

FRAGMENT_CHANCE: Final = 0.02
"""The probability that bytes that were sent together arrive in two pieces."""


class Link:
    """One direction between two hosts."""

    __slots__ = ("delay_s", "is_cut", "waiting")

    def __init__(self) -> None:
        self.is_cut = False
        self.delay_s = DELAY_S
        self.waiting: dict[Callable[[], None], None] = {}
        """What goes on when it is mended."""


class Network:
    """All hosts, links and listeners."""

    def __init__(self, loop: SimulatedLoop, rng: Rng) -> None:
        self.loop = loop
        self.rng = rng
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], ListeningSocket] = {}
        self._silent: set[str] = set()
        self._cut: dict[str, int] = {}  # of how many links that are cut a host is an end
        self._ends: dict[End, None] = {}
        self._next_port = 40_000
        loop.connect = self._connect_transport

    # Faults.

    def link(self, sender: str, receiver: str) -> Link:
        """The link from one host to another."""
        return self._links.setdefault((sender, receiver), Link())

    def cut(self, sender: str, receiver: str) -> None:
        """Cuts the link from one host to another."""
        link = self.link(sender, receiver)
        if not link.is_cut:
            link.is_cut = True
            self._count(sender, receiver, 1)

    def mend(self, sender: str, receiver: str) -> None:
        """Restores the link; delayed data arrives soon, as TCP retransmits."""
        link = self.link(sender, receiver)
        if link.is_cut:
            link.is_cut = False
            self._count(sender, receiver, -1)
            self._go_on(link)

    def _count(self, sender: str, receiver: str, more: int) -> None:
        for host in (sender, receiver):
            self._cut[host] = self._cut.get(host, 0) + more

    def misses_links(self, host: str) -> bool:
        """Whether some link of a host is cut."""
        return self._cut.get(host, 0) > 0

    def _go_on(self, link: Link) -> None:
        waiting, link.waiting = link.waiting, {}
        for go_on in waiting:
            self.loop.in_world(self.rng.uniform(0.0, 0.2), go_on)

    def mend_all(self) -> None:
        """Restores all links."""
        for (sender, receiver), link in self._links.items():
            link.delay_s = DELAY_S
            self.mend(sender, receiver)

    def is_cut(self, one: str, other: str) -> bool:
        """Whether they cannot talk to each other."""
        return any(pair in self._links and self._links[pair].is_cut for pair in ((one, other), (other, one)))

    def power_off(self, host: str) -> None:
        """Switches a host off; its peers get no answer and no reset."""
        self._silent.add(host)

    def power_on(self, host: str) -> None:
        """Switches a host on; its old connections are unknown."""
        self._silent.discard(host)
        for (_, receiver), link in self._links.items():
            if receiver == host and not link.is_cut:
                self._go_on(link)

    def is_silent(self, host: str) -> bool:
        """Whether it has no power."""
        return host in self._silent

    def reset_one(self, hosts: Iterable[str]) -> bool:
        """Some connection of these hosts breaks, wherever it is in a frame. Whether there was one."""
        wanted = set(hosts)
        found = [end for end in self._ends if end.process.host in wanted and not end.is_over]
        if not found:
            return False
        end = found[self.rng.randbelow(len(found))]
        end.cut_short()
        return True

    # Connections.

    def bind(self, host: str, port: int) -> "ListeningSocket":
        """Take an address for the process that runs now: whoever connects is refused until it listens there.

        Raises OSError when it is taken.
        """
        process = current_process()
        assert process is not None
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listening = self._listeners[host, port] = ListeningSocket(self, process, host, port)
        process.on_death.append(listening.close)
        return listening

    def forget(self, listening: "ListeningSocket") -> None:
        """Frees the port."""
        self._listeners.pop((listening.host, listening.port), None)

    def forget_end(self, end: "End") -> None:
        """It is over."""
        self._ends.pop(end, None)

    async def connect(self, host: str, port: int) -> "End":
        """A connection for the process that runs now. Raises ConnectionRefusedError."""
        process = current_process()
        assert process is not None, "the world has no sockets"
        again_s = CONNECT_AGAIN_S
        answered: asyncio.Future[End | None] = self.loop.create_future()
        try:
            while not answered.done():
                self.loop.in_world(self.delay_s(process.host, host), self._arrive, process, host, port, answered)
                await asyncio.wait((answered,), timeout=again_s)
                again_s *= 2
        finally:
            answered.cancel()
        found = answered.result()
        if found is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {host}:{port}")
        return found

    def _arrive(self, process: Process, host: str, port: int, answered: "asyncio.Future[End | None]") -> None:
        """A host is asked for a connection; the answer may be long on its way."""
        if answered.done() or self.link(process.host, host).is_cut or host in self._silent:
            return
        listening = self._listeners.get((host, port))
        end: End | None = None
        if listening is not None and listening.is_listening:
            self._next_port += 1
            end, other = self._pair(process, listening.process, self._next_port)
            listening.take(other)

        def answer() -> None:
            if process.is_dead:
                _close(end)
            else:
                self.loop.as_process(process, take)

        def take() -> None:
            if answered.done():
                _close(end)
            else:
                answered.set_result(end)

        self._when_open(host, process.host, answer)

    def delay_s(self, sender: str, receiver: str) -> float:
        """The current latency of a link."""
        return self.rng.uniform(*self.link(sender, receiver).delay_s)

    def _when_open(self, sender: str, receiver: str, then: Callable[[], None]) -> None:
        """Do something when a packet has arrived, which may be long after it was sent."""

        def arrive() -> None:
            link = self.link(sender, receiver)
            if link.is_cut:
                link.waiting[arrive] = None
            else:
                then()

        self.loop.in_world(self.delay_s(sender, receiver), arrive)

    def _pair(self, client: Process, server: Process, port: int) -> "tuple[End, End]":
        one, other = End(self, client, port), End(self, server, port)
        one.other, other.other = other, one
        for end in (one, other):
            self._ends[end] = None
            end.process.on_death.append(end.process_ended)
        return one, other

    async def _connect_transport(self, protocol_factory: Callable[[], Any], host: str, port: int) -> Any:
        end = await self.connect(host, port)
        protocol = protocol_factory()
        transport = ProtocolTransport(self.loop, end, protocol)
        protocol.connection_made(transport)
        transport.start()
        return transport, protocol


class ListeningSocket:
    """Takes connections until its process ends; as a socket, for `Listener`."""

    def __init__(self, network: Network, process: Process, host: str, port: int) -> None:
        self._network = network
        self.process = process
        self.host = host
        self.port = port
        self.is_listening = False
        self._backlog: deque[End] = deque()
        self._fd = network.loop.new_descriptor(self)

    @property
    def is_readable(self) -> bool:
        """Whether a connection can be accepted."""
        return bool(self._backlog)

    is_writable = False

    def listen(self, _backlog: int) -> None:
        """As a socket's."""
        self.is_listening = True

    def take(self, end: "End") -> None:
        """Accepts a connection."""
        self._backlog.append(end)
        self._network.loop.changed(self._fd)

    def fileno(self) -> int:
        """As a socket's."""
        return self._fd

    def getsockname(self) -> tuple[str, int]:
        """As a socket's."""
        return self.host, self.port

    def accept(self) -> "tuple[AcceptedSocket, tuple[str, int]]":
        """As a socket's."""
        if not self._backlog:
            raise BlockingIOError
        end = self._backlog.popleft()
        return AcceptedSocket(end, (self.host, self.port)), (end.other.process.host, end.port)

    def close(self) -> None:
        """As a socket's; connections that were not accepted are reset."""
        self._network.forget(self)
        for end in self._backlog:
            end.close()
        self._backlog.clear()


class End:
    """One end of a connection: what a process has of it."""

    other: "End"

    def __init__(self, network: Network, process: Process, port: int) -> None:
        self._network = network
        self.process = process
        self.port = port
        """The client's, which tells connections apart."""
        self._inbox: deque[bytes] = deque()
        self._way: deque[tuple[bytes | None, int]] = deque()  # what this end sends: bytes, None at the end, errno
        self._untaken = 0  # bytes that were sent and not taken
        self._last_s = 0.0
        self._is_moving = False
        self._is_finished = False  # the other side sends nothing more
        self._error = 0
        self.is_over = False
        """Whether its process has closed it, or ended."""
        self.on_change: Callable[[], None] | None = None
        self.fd = network.loop.new_descriptor(self)

    @property
    def is_readable(self) -> bool:
        """Whether bytes or the end of the stream can be received."""
        return bool(self._inbox or self._is_finished or self._error)

    @property
    def is_writable(self) -> bool:
        """Whether there is room, or no use in waiting for it."""
        return self._untaken < WINDOW_BYTES or bool(self._error)

    def send(self, data: Buffer) -> int:
        """Send what there is room for; how many bytes. Raises OSError as a socket does."""
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        room = WINDOW_BYTES - self._untaken
        if room <= 0:
            raise BlockingIOError
        piece = bytes(data[:room])
        self._untaken += len(piece)
        self._put_on_way(piece)
        return len(piece)

    def send_all(self, data: Buffer) -> None:
        """Send as one who has a buffer of any size."""
        if not self._error:
            self._untaken += len(data)
            self._put_on_way(bytes(data))

    def receive(self, size: int) -> bytes:
        """Take bytes; none when the other side sends nothing more. Raises OSError as a socket does."""
        if self._inbox:
            piece = self._inbox.popleft()
            if len(piece) > size:
                self._inbox.appendleft(piece[size:])
                piece = piece[:size]
            other = self.other
            was_full = other._untaken >= WINDOW_BYTES
            other._untaken -= len(piece)
            if was_full and other._untaken < WINDOW_BYTES:
                other._changed()
            return piece
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        if self._is_finished:
            return b""
        raise BlockingIOError

    def close(self) -> None:
        """Send what was sent, and nothing more; what arrives from now on is answered by a reset."""
        if not self.is_over:
            self.is_over = True
            self._put_on_way(None, errno.ECONNRESET if self._inbox else 0)

    def abort(self) -> None:
        """Resets the connection."""
        if not self.is_over:
            self.is_over = True
            self._way.clear()
            self._put_on_way(None, errno.ECONNRESET)

    def process_ended(self) -> None:
        """The system closes what its process had; a host without power does nothing."""
        if self._network.is_silent(self.process.host):
            self.is_over = True
            self._way.clear()
            self._network.forget_end(self)
        else:
            self.close()

    def cut_short(self) -> None:
        """Something on the way forgets the connection: a part of what is under way arrives, then both are told."""
        for end in (self, self.other):
            if end._way:
                piece = end._way.popleft()[0]
                end._way.clear()
                if piece:
                    end._way.append((piece[: self._network.rng.randbelow(len(piece))], 0))
            end._put_on_way(None, errno.ECONNRESET)

    # The way to the other end.

    def _put_on_way(self, piece: bytes | None, error: int = 0) -> None:
        if piece and len(piece) > 1 and self._network.rng.random() < FRAGMENT_CHANCE:
            at = 1 + self._network.rng.randbelow(len(piece) - 1)
            self._way.append((piece[:at], 0))
            piece = piece[at:]
        self._way.append((piece, error))
        if not self._is_moving:
            self._is_moving = True
            self._move()

    def _move(self) -> None:
        network = self._network
        now_s = network.loop.time()
        arrival_s = max(self._last_s, now_s + network.delay_s(self.process.host, self.other.process.host))
        self._last_s = arrival_s
        network.loop.in_world(arrival_s - now_s, self._arrive)

    def _arrive(self) -> None:
        if not self._way:
            self._is_moving = False
            return
        network, other = self._network, self.other
        link = network.link(self.process.host, other.process.host)
        if link.is_cut or network.is_silent(other.process.host):
            link.waiting[self._arrive] = None
            return
        piece, error = self._way.popleft()
        if piece is None:
            other._end(error)
        elif other.is_over:
            if piece:
                self._way.clear()
                network._when_open(other.process.host, self.process.host, lambda: self._end(errno.ECONNRESET))
        elif piece:
            other._inbox.append(piece)
            other._changed()
        if self._way:
            self._move()
        else:
            self._is_moving = False

    def _end(self, error: int) -> None:
        if error:
            self._error = self._error or error
        else:
            self._is_finished = True
        self._network.forget_end(self)
        self._changed()

    def _changed(self) -> None:
        if self.is_over or self.process.is_dead:
            return
        if self.on_change is not None:
            self._network.loop.as_process(self.process, self.on_change)
        self._network.loop.changed(self.fd)


class AcceptedSocket:
    """A transport of `ottla.network`, with the methods of a socket that a listener calls."""

    sends_files = False
    is_plain = False
    is_ready = True
    has_input = False
    has_output = False

    def __init__(self, end: End, local: tuple[str, int]) -> None:
        self._end = end
        self._local = local

    def fileno(self) -> int:
        """As a socket's."""
        return self._end.fd

    def getsockname(self) -> tuple[str, int]:
        """As a socket's."""
        return self._local

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def setsockopt(self, *_: object) -> None:
        """It has no options."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """As a socket's."""
        piece = self._end.receive(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """As a socket's."""
        return self._end.send(data)

    def sendmsg(self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0, /) -> int:
        """As a socket's."""
        return self._end.send(b"".join(buffers))

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """As a socket's."""
        self._end.close()


class ProtocolTransport(asyncio.Transport):
    """The result of `create_connection`: an asyncio transport for a buffered protocol."""

    def __init__(self, loop: SimulatedLoop, end: End, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._end = end
        self._protocol = protocol
        self._is_closing = False

    def start(self) -> None:
        """Begin to receive."""
        self._end.on_change = self._receive
        self._receive()

    def _receive(self) -> None:
        while not self._is_closing:
            buffer = self._protocol.get_buffer(-1)
            try:
                piece = self._end.receive(len(buffer))
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(error)
                return
            if not piece:
                self._lose(None)
                return
            buffer[: len(piece)] = piece
            self._protocol.buffer_updated(len(piece))

    def _lose(self, error: OSError | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.close()
            self._loop.call_soon(self._protocol.connection_lost, error)

    def write(self, data: Any) -> None:
        """Sends the bytes, now or later."""
        if not self._is_closing:
            self._end.send_all(data)

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self._is_closing

    def close(self) -> None:
        """Closes the connection when all bytes are sent."""
        self._lose(None)

    def abort(self) -> None:
        """Closes the connection now."""
        if not self._is_closing:
            self._is_closing = True
            self._end.abort()
            self._loop.call_soon(self._protocol.connection_lost, None)


def _close(end: End | None) -> None:
    if end is not None:
        end.close()
