"""TLS between a connection and its socket: Python's `ssl`, whose handshake is over (`ottla.network.handshakes`).

    recv_into    records of the peer, as many as the socket holds and the window has room for
    send         records of up to 16 KiB, one system call each, straight from the memory of the answer

What OpenSSL has begun to send it must be given again as it was. So a record that the socket does not take is kept here
and counts as sent.
"""

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, cast

from ottla.network.response_queue import Buffer

RECORD_BYTES: Final = 16 * 1024
"""The most that a record of TLS holds."""


class TlsTransport:
    """Belongs to the event loop, as its connection."""

    __slots__ = ("_read", "_send", "_socket", "_unsent")

    sends_files = False
    is_plain = False
    is_ready = True

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._socket = secured
        self._read = cast("Callable[[int, memoryview], int]", secured.read)
        self._send = secured.send
        self._unsent: bytes = b""

    @property
    def has_input(self) -> bool:
        """As `Transport` says: what is left of a record that the window had no room for."""
        return bool(self._socket.pending())

    @property
    def has_output(self) -> bool:
        """As `Transport` says."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """As `Transport` says."""
        return self._socket.fileno()

    def recv_into(self, buffer: memoryview, /) -> int:
        """As `Transport` says."""
        read, received, left = self._read, 0, len(buffer)
        try:
            while left:  # a record may hold as little as its sender likes: librdkafka's have one value of a record each
                count = read(left, buffer[received:] if received else buffer)
                if not count:
                    break
                received += count
                left -= count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
        except OSError:
            if not received:  # else it is met again
                raise
        return received

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """As `Transport` says; `flags` are for sockets."""
        self._send_unsent()
        return self._send_records(_records_of(memoryview(data)))

    def sendmsg(self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0, /) -> int:
        """As `Transport` says. Small ones share a record."""
        self._send_unsent()
        return self._send_records(_records_of_all(buffers))

    def flush(self) -> None:
        """As `Transport` says."""
        if self._unsent:
            try:
                self._send(self._unsent)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self._unsent = b""

    def close(self) -> None:
        """As `Transport` says. The peer is told that nothing follows, if the socket takes that at once."""
        if not self._unsent:
            with suppress(OSError, ValueError):
                self._socket.unwrap()
        self._socket.close()

    def _send_unsent(self) -> None:
        self.flush()
        if self._unsent:
            raise BlockingIOError

    def _send_records(self, records: Iterator[memoryview]) -> int:
        sent = 0
        for record in records:
            try:
                self._send(record)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._unsent = bytes(record)
                return sent + len(record)
            sent += len(record)
        return sent


def _records_of(data: memoryview) -> Iterator[memoryview]:
    for begin in range(0, len(data), RECORD_BYTES):
        yield data[begin : begin + RECORD_BYTES]


def _records_of_all(buffers: Iterable[Buffer]) -> Iterator[memoryview]:
    """Records with the bytes of all buffers; what fills records by itself is not copied."""
    gathered = bytearray()
    for buffer in buffers:
        data = memoryview(buffer)
        if gathered:
            missing = RECORD_BYTES - len(gathered)
            gathered += data[:missing]
            data = data[missing:]
            if len(gathered) < RECORD_BYTES:
                continue
            yield memoryview(bytes(gathered))
            gathered.clear()
        whole = len(data) - len(data) % RECORD_BYTES
        yield from _records_of(data[:whole])
        gathered += data[whole:]
    if gathered:
        yield memoryview(gathered)
