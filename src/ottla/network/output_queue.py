"""Responses on their way to a socket: bytes from memory and slices of files, in order."""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from ottla.network.file_slice import FileSlice
from ottla.network.file_transfer import is_in_page_cache, send_file
from ottla.network.response_queue import Buffer, Part

_BUFFERS_MAX = min(os.sysconf("SC_IOV_MAX"), 512)
_SEND_MORE: int = getattr(socket, "MSG_MORE", 0)

_TURN_BYTES = 1024 * 1024
"""What one connection sends before others have their turn, give or take one call."""

_SLICE_COST = 128
"""What a slice that waits counts for in `memory_bytes`."""

_CHUNK_BYTES = 1024 * 1024
"""How much of a slice is looked at and sent in one go."""

ReadAhead = Callable[[FileSlice], None]
"""Starts to read a slice into the page cache elsewhere; `OutputQueue.resume` is called when that is done."""


class OutputQueue:
    """What one connection has still to send."""

    __slots__ = ("_checked_bytes", "_is_reading_ahead", "_parts", "_read_ahead", "memory_bytes", "sent_bytes")

    def __init__(self, read_ahead: ReadAhead) -> None:
        self._parts: list[Part] = []
        self._read_ahead = read_ahead
        self._checked_bytes = 0  # of the first slice: known to be in the page cache
        self._is_reading_ahead = False
        self.memory_bytes = 0
        """Bytes of memory that wait to be sent."""
        self.sent_bytes = 0
        """Bytes given to the socket so far."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def is_waiting_for_disk(self) -> bool:
        """Whether the first part is being read into the page cache; the socket need not be watched meanwhile."""
        return self._is_reading_ahead

    def push(self, parts: Sequence[Part]) -> None:
        """Send these after all others."""
        for part in parts:
            if isinstance(part, FileSlice):
                if part.size:
                    self.memory_bytes += _SLICE_COST
                    self._parts.append(part)
            elif part:
                self.memory_bytes += len(part)
                self._parts.append(part)

    def resume(self) -> None:
        """The first chunk of the first slice has been read ahead."""
        self._is_reading_ahead = False
        self._checked_bytes = _CHUNK_BYTES

    def clear(self) -> None:
        """Forget everything; the owners of files are let go."""
        self._parts.clear()
        self.memory_bytes = 0

    def write_to(self, sock: socket.socket) -> None:
        """Send until the socket takes no more, a turn's share is sent, or the disk has to be waited for.

        Raises OSError when the connection is lost or a file ends early.
        """
        sent_before = self.sent_bytes
        try:
            while self._parts and self.sent_bytes - sent_before < _TURN_BYTES:
                first = self._parts[0]
                if isinstance(first, FileSlice):
                    if not self._send_slice(sock, first):
                        return
                else:
                    self._send_buffers(sock, first)
        except (BlockingIOError, InterruptedError):
            return

    def _send_buffers(self, sock: socket.socket, first: Buffer) -> None:
        parts = self._parts
        buffers: list[Buffer] = []
        flags = 0
        for part in parts:
            if isinstance(part, FileSlice):
                flags = _SEND_MORE
                break
            buffers.append(part)
            if len(buffers) == _BUFFERS_MAX:
                break
        sent = sock.send(first, flags) if len(buffers) == 1 else sock.sendmsg(buffers, (), flags)
        self.sent_bytes += sent
        self.memory_bytes -= sent
        done = 0
        for buffer in buffers:
            size = len(buffer)
            if sent < size:
                parts[done] = memoryview(buffer)[sent:]
                break
            sent -= size
            done += 1
        del parts[:done]

    def _send_slice(self, sock: socket.socket, piece: FileSlice) -> bool:
        """Send of the first slice. False when the disk has to be waited for."""
        if not self._checked_bytes:
            chunk = min(piece.size, _CHUNK_BYTES)
            if not is_in_page_cache(piece.fd, piece.position, chunk):
                self._is_reading_ahead = True
                self._read_ahead(replace(piece, size=chunk))
                return False
            self._checked_bytes = chunk
        sent = send_file(sock, piece.fd, piece.position, min(piece.size, self._checked_bytes))
        self.sent_bytes += sent
        if sent == piece.size:
            del self._parts[0]
            self.memory_bytes -= _SLICE_COST
            self._checked_bytes = 0
        else:
            self._parts[0] = replace(piece, position=piece.position + sent, size=piece.size - sent)
            self._checked_bytes = max(self._checked_bytes - sent, 0)
        return True
