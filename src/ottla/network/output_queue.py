"""Responses on their way to a socket: bytes from memory and slices of files, in order."""

import os
import socket
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ottla.network.file_transfer import GATHER_MAX_BYTES, send_file
from ottla.network.response_queue import SLICE_COST, Buffer, Part
from ottla.network.transport import Transport
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.page_cache import is_in_page_cache, read_cached, read_file

_BUFFERS_MAX = min(os.sysconf("SC_IOV_MAX"), 512)
_SEND_MORE: int = getattr(socket, "MSG_MORE", 0)

_TURN_BYTES = 1024 * 1024
"""What one connection sends before others have their turn, give or take one call."""

_CHUNK_BYTES = 1024 * 1024
"""How much of a slice is looked at and sent in one go."""

_READ_BYTES = 128 * 1024
"""How much of small slices is read for one call, give or take one: what a socket takes at a time."""

OnPiece = Callable[[FileSlice], None]
"""Told of a slice, or of the beginning of one."""


class OutputQueue:
    """What one connection has still to send."""

    __slots__ = (
        "_checked_bytes",
        "_on_found",
        "_read_ahead",
        "is_waiting_for_disk",
        "memory_bytes",
        "parts",
        "sent_bytes",
    )

    def __init__(self, read_ahead: OnPiece, on_found: OnPiece) -> None:
        """`read_ahead` reads a slice into the page cache elsewhere, `resume` is called when that is done; `on_found`
        hears of what is there already.
        """
        self.parts: list[Part] = []
        """What is still to be sent, in order."""
        self._read_ahead = read_ahead
        self._on_found = on_found
        self._checked_bytes = 0  # of the first slice: known to be in the page cache
        self.is_waiting_for_disk = False
        """Whether the first part is being read into the page cache; the socket need not be watched meanwhile."""
        self.memory_bytes = 0
        """Bytes of memory that wait to be sent."""
        self.sent_bytes = 0
        """Bytes given to the socket so far."""

    def push(self, parts: Sequence[Part]) -> int:
        """Send these after all others; returns how many bytes of memory they take."""
        taken = 0
        for part in parts:
            if type(part) is FileSlice:
                if part.size:
                    taken += SLICE_COST
                    self.parts.append(part)
            elif part:
                taken += len(part)
                self.parts.append(part)
        self.memory_bytes += taken
        return taken

    def resume(self) -> None:
        """The first chunk of the first slice has been read ahead."""
        self.is_waiting_for_disk = False
        self._checked_bytes = _CHUNK_BYTES

    def sent(self, count: int) -> None:
        """So many bytes have been given to the socket by somebody else. Only for a queue of nothing but bytes."""
        self.sent_bytes += count
        if count == self.memory_bytes:
            self.parts.clear()
            self.memory_bytes = 0
            return
        done = 0
        for part in self.parts:
            size = len(part)
            if count < size:
                if count:
                    self.parts[done] = self._rest(part, count)
                break
            count -= size
            done += 1
            self.memory_bytes -= size
        del self.parts[:done]

    def clear(self) -> None:
        """Forget everything; the owners of files are let go."""
        self.parts.clear()
        self.memory_bytes = 0

    def write_to(self, transport: Transport) -> None:
        """Send until the transport takes no more, a turn's share is sent, or the disk has to be waited for.

        Raises OSError when the connection is lost or a file ends early.
        """
        sent_before = self.sent_bytes
        try:
            while self.parts and self.sent_bytes - sent_before < _TURN_BYTES:
                first = self.parts[0]
                if len(self.parts) == 1 and first.__class__ is bytes:
                    self._send_only(transport, first)
                elif type(first) is FileSlice and first.size > GATHER_MAX_BYTES and transport.sends_files:
                    if not self._is_first_at_hand(first):
                        return
                    if not self._send_slice(transport, first):
                        return  # it says when it has room again; to ask at once is to send in small pieces
                elif not self._send_gathered(transport):
                    return
        except (BlockingIOError, InterruptedError):
            return

    def _send_only(self, transport: Transport, part: bytes) -> None:
        """Send what is all there is: the answer to one small request, mostly."""
        sent = transport.send(part)
        self.sent_bytes += sent
        self.memory_bytes -= sent
        if sent == len(part):
            self.parts.clear()
        else:
            self.parts[0] = memoryview(part)[sent:]

    def _send_gathered(self, transport: Transport) -> bool:
        """Send the bytes and small slices that come first, with one call. False when the disk has to be waited for."""
        buffers, goes_on = self._gather(GATHER_MAX_BYTES if transport.sends_files else None)
        if not buffers:
            first = self.parts[0]
            assert type(first) is FileSlice
            self._start_read_ahead(first)
            return False
        flags = _SEND_MORE if goes_on else 0
        sent = transport.send(buffers[0], flags) if len(buffers) == 1 else transport.sendmsg(buffers, (), flags)
        self.sent_bytes += sent
        parts = self.parts
        done = 0
        for part, buffer in zip(parts, buffers, strict=False):
            size = len(buffer)
            if sent < size or (size == _READ_BYTES and size < len(part)):
                parts[done] = self._rest(part, sent)
                break
            sent -= size
            done += 1
            self.memory_bytes -= SLICE_COST if type(part) is FileSlice else size
        del parts[:done]
        return True

    def _gather(self, slice_max: int | None) -> tuple[list[Buffer], bool]:
        """The bytes of the first parts, as many as go out together, and whether a slice follows that goes by itself,
        being larger than `slice_max`. With None, none does, and of a large one so much is read as one call sends.

        What is read of a slice and then not sent is read again: slices that wait take no memory.
        """
        buffers: list[Buffer] = []
        read_bytes = 0
        for part in self.parts:
            if type(part) is not FileSlice:
                buffers.append(part)
            elif slice_max is not None and part.size > slice_max:
                return buffers, True
            elif read_bytes >= _READ_BYTES or (data := self._read(part, is_first=not buffers)) is None:
                break
            else:
                buffers.append(data)
                if part.size > _READ_BYTES:
                    break
                read_bytes += part.size
            if len(buffers) == _BUFFERS_MAX:
                break
        return buffers, False

    def _rest(self, part: Part, sent: int) -> Part:
        if type(part) is FileSlice:
            return replace(part, position=part.position + sent, size=part.size - sent)
        self.memory_bytes -= sent
        return memoryview(part)[sent:]

    def _read(self, piece: FileSlice, *, is_first: bool) -> Buffer | None:
        size = min(piece.size, _READ_BYTES)
        if is_first and self._checked_bytes:
            self._checked_bytes = 0
            return read_file(piece.fd, piece.position, size)
        return read_cached(piece.fd, piece.position, size)

    def _is_first_at_hand(self, piece: FileSlice) -> bool:
        """Whether the first slice can be sent of; if not, it is being read ahead from now on."""
        if self._checked_bytes:
            return True
        chunk = min(piece.size, _CHUNK_BYTES)
        if is_in_page_cache(piece.fd, piece.position, chunk):
            self._checked_bytes = chunk
            self._on_found(piece if chunk == piece.size else replace(piece, size=chunk))
            return True
        self._start_read_ahead(piece)
        return False

    def _start_read_ahead(self, piece: FileSlice) -> None:
        self.is_waiting_for_disk = True
        self._read_ahead(replace(piece, size=min(piece.size, _CHUNK_BYTES)))

    def _send_slice(self, transport: Transport, piece: FileSlice) -> bool:
        """Whether the socket took all that it was offered."""
        wanted = min(piece.size, self._checked_bytes)
        sent = send_file(transport.fileno(), piece.fd, piece.position, wanted)
        self.sent_bytes += sent
        if sent == piece.size:
            del self.parts[0]
            self.memory_bytes -= SLICE_COST
            self._checked_bytes = 0
        else:
            self.parts[0] = self._rest(piece, sent)
            self._checked_bytes = max(self._checked_bytes - sent, 0)
        return sent == wanted
