"""TLS between a connection and its socket: Python's `ssl` over memory, and a plain socket that does not block.

    recv_into    socket --32 KiB a call--> incoming --> records, as many as there are --> the window of the connection
    send         the answer --32 KiB--> records --> outgoing --a call--> socket

OpenSSL by itself asks the system twice for each record, and a record holds as little as its sender likes. So bytes pass
through memory, and a call of the system moves those of many records. A piece is small enough to stay in the processor's
cache, and for what OpenSSL keeps of its largest for each connection.

What is encrypted counts as sent: what the socket does not take of it is kept here, a piece at most.

A record of 27 bytes asks for other keys, which takes 20 microseconds, and OpenSSL looks at all that it has been given
before it returns. So it is given little until something comes out of that, and who asks again and again is gone.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, cast

from ottla.network.response_queue import Buffer

PIECE_BYTES: Final = 32 * 1024
"""What is received with one call, and what is encrypted at a time: two records of TLS."""

FIRST_BYTES: Final = 4 * 1024
"""What is received with one call while nothing has come out of what was received before."""

REPLIES_BYTES_MAX: Final = 1_024
"""What OpenSSL itself has to say to what was received with one call: that other keys are used, 37 times."""


class TlsTransport:
    """Belongs to the event loop, as its connection. `shake_hands` comes before everything else."""

    __slots__ = (
        "_incoming",
        "_is_asking",
        "_outgoing",
        "_piece_bytes",
        "_read",
        "_socket",
        "_unsent",
        "_write",
        "has_input",
        "session",
    )

    sends_files = False
    is_plain = False
    is_ready = True

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """The server's side, over an accepted socket that does not block."""
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        """What is known about the peer."""
        self._read = cast("Callable[[int, memoryview], int]", self.session.read)
        self._write = self.session.write
        self._unsent: bytes = b""
        self._piece_bytes = FIRST_BYTES
        self._is_asking = False  # for other keys, and for nothing else
        self.has_input = False
        """As `Transport` says: whether there may be more than the window had room for."""

    @property
    def has_output(self) -> bool:
        """As `Transport` says."""
        return bool(self._unsent or self._outgoing.pending)

    def fileno(self) -> int:
        """As `Transport` says."""
        return self._socket.fileno()

    def shake_hands(self) -> bool:
        """Go on with the handshake as far as what has arrived allows; whether it is over.

        If not, it waits for the peer, or for room in the socket if there is output. Raises OSError, and ValueError,
        when it has failed; what the peer is to be told then is sent, if the socket takes it.
        """
        while True:
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if self.has_output:
                    return False
            except (OSError, ValueError):
                with suppress(OSError):
                    self.flush()
                raise
            else:
                self.flush()
                self.has_input = bool(self._incoming.pending)
                return True
            try:
                self._receive()
            except (BlockingIOError, InterruptedError):
                return False

    def recv_into(self, buffer: memoryview, /) -> int:
        """As `Transport` says."""
        self.has_input = False
        received = 0
        if self._incoming.pending or self.session.pending():
            received = self._take(buffer, 0)
        may_have_more = True  # the socket
        while not self.has_input and (may_have_more or not received):
            piece_bytes, before = self._piece_bytes, received
            try:
                may_have_more = self._receive() == piece_bytes
            except OSError:
                if received:
                    break
                raise
            received = self._take(buffer, received)
            if self._outgoing.pending > REPLIES_BYTES_MAX:
                self._is_asking = True
            if received == before:
                self._piece_bytes = FIRST_BYTES
            elif may_have_more:
                self._piece_bytes = PIECE_BYTES
        return received

    def _take(self, buffer: memoryview, received: int) -> int:
        """Decrypt what is here, behind what the buffer has; how much it has then. There is more input where it is full,
        or where an end is met again.
        """
        read, incoming, left = self._read, self._incoming, len(buffer) - received
        try:
            while left:
                count = read(left, buffer[received:] if received else buffer)
                if not count:
                    self.has_input = True
                    break
                received += count
                left -= count
                if not incoming.pending:
                    break
            else:
                self.has_input = True
        except ssl.SSLWantReadError:  # there is a part of a record
            pass
        except ssl.SSLEOFError:  # without a word
            self.has_input = True
        except OSError:
            if not received:
                with suppress(OSError):  # an alert
                    self.flush()
                raise
            self.has_input = True
        return received

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """As `Transport` says; `flags` are for sockets."""
        self._send_unsent()
        if len(data) <= PIECE_BYTES:
            return self._send_piece(data)
        return self._send_pieces(_pieces_of(memoryview(data)))

    def sendmsg(self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0, /) -> int:
        """As `Transport` says. Small ones share a record."""
        self._send_unsent()
        return self._send_pieces(_pieces_of_all(buffers))

    def flush(self) -> None:
        """As `Transport` says."""
        with suppress(BlockingIOError, InterruptedError):
            while True:
                if not self._unsent:
                    self._unsent = self._outgoing.read()
                    if not self._unsent:
                        return
                self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        """As `Transport` says. The peer is told that nothing follows, if the socket takes that at once."""
        if not self._unsent:
            with suppress(OSError, ValueError):
                self.session.unwrap()
            with suppress(OSError):
                self.flush()
        self._socket.close()

    def _receive(self) -> int:
        if self._is_asking:
            raise OSError("it asks for other keys again and again")
        data = self._socket.recv(self._piece_bytes)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return len(data)

    def _send_unsent(self) -> None:
        if self.has_output:
            self.flush()
            if self._unsent:
                raise BlockingIOError

    def _send_pieces(self, pieces: Iterator[memoryview]) -> int:
        sent = 0
        for piece in pieces:
            sent += self._send_piece(piece)
            if self._unsent:
                break
        return sent

    def _send_piece(self, piece: Buffer) -> int:
        sent = self._write(piece)
        data = self._outgoing.read()
        try:
            taken = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            taken = 0
        if taken < len(data):
            self._unsent = data[taken:]
        return sent


def _pieces_of(data: memoryview) -> Iterator[memoryview]:
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES]


def _pieces_of_all(buffers: Iterable[Buffer]) -> Iterator[memoryview]:
    """Pieces with the bytes of all buffers; what fills pieces by itself is not copied."""
    gathered = bytearray()
    for buffer in buffers:
        data = memoryview(buffer)
        if gathered:
            missing = PIECE_BYTES - len(gathered)
            gathered += data[:missing]
            data = data[missing:]
            if len(gathered) < PIECE_BYTES:
                continue
            yield memoryview(bytes(gathered))
            gathered.clear()
        whole = len(data) - len(data) % PIECE_BYTES
        yield from _pieces_of(data[:whole])
        gathered += data[whole:]
    if gathered:
        yield memoryview(gathered)
