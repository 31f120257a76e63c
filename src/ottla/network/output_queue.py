"""Responses on their way to a socket: bytes from memory and slices of files, in order.

    pushed -->  [ bytes | slice | bytes ]  --> taken by the socket
                  memory_bytes                  metrics.bytes_out
    held:       answers that wait for an earlier one, in `ottla.network.response_queue`
                  held_bytes

What waits is counted here and nowhere else, for the connection and over the listener (`NetworkMetrics.out_bytes`).
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ottla.network.file_transfer import GATHER_MAX_BYTES, send_file
from ottla.network.metrics import NetworkMetrics
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

T = TypeVar("T")

OnPiece = Callable[[FileSlice], None]
"""Told of a slice, or of the beginning of one."""


def but(items: Sequence[T], indexes: Mapping[int, object]) -> Sequence[T]:
    """All items but those with these indexes.

    >>> but("abcd", {1: "b"})
    ['a', 'c', 'd']
    """
    return [each for index, each in enumerate(items) if index not in indexes] if indexes else items


class OutputQueue:
    """What one connection has still to send."""

    __slots__ = (
        "_checked_bytes",
        "_metrics",
        "_on_found",
        "_read_ahead",
        "_turn_bytes",
        "held_bytes",
        "is_waiting_for_disk",
        "memory_bytes",
        "parts",
    )

    def __init__(self, read_ahead: OnPiece, on_found: OnPiece, metrics: NetworkMetrics) -> None:
        """`read_ahead` reads a slice into the page cache elsewhere, `resume` is called when that is done; `on_found`
        hears of what is there already. `metrics` are the counters of the listener.
        """
        self._metrics = metrics
        self.parts: list[Part] = []
        """What is still to be sent, in order."""
        self._read_ahead = read_ahead
        self._on_found = on_found
        self._checked_bytes = 0  # of the first slice: known to be in the page cache
        self.is_waiting_for_disk = False
        """Whether the first part is being read into the page cache; the socket need not be watched meanwhile."""
        self._turn_bytes = 0  # given to the socket by `write_to`, this time
        self.memory_bytes = 0
        """Bytes of memory that wait to be sent."""
        self.held_bytes = 0
        """Bytes of memory in answers that wait for an earlier one."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of memory that the socket has not taken."""
        return self.memory_bytes + self.held_bytes

    def push(self, parts: Sequence[Part]) -> None:
        """Send these after all others."""
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
        self._metrics.out_bytes += taken

    def append(self, answer: bytes) -> None:
        """`push` of nothing but bytes, and some."""
        size = len(answer)
        self.parts.append(answer)
        self.memory_bytes += size
        self._metrics.out_bytes += size

    def hold(self, by: int) -> None:
        """Answers that wait for an earlier one take so many bytes more, or fewer."""
        self.held_bytes += by
        self._metrics.out_bytes += by

    def resume(self) -> None:
        """The first chunk of the first slice has been read ahead."""
        self.is_waiting_for_disk = False
        self._checked_bytes = _CHUNK_BYTES

    def sent(self, count: int) -> None:
        """So many bytes have been given to the socket by somebody else. Only for a queue of nothing but bytes."""
        memory_before, left, done = self.memory_bytes, count, 0
        for part in self.parts:
            size = len(part)
            if left < size:
                if left:
                    self.parts[done] = self._rest(part, left)
                break
            left -= size
            done += 1
            self.memory_bytes -= size
        del self.parts[:done]
        self._count(count, memory_before)

    @staticmethod
    def sent_together(queues: "Sequence[OutputQueue]", short: Mapping[int, int], metrics: NetworkMetrics) -> None:
        """Of each queue of a listener all has been given to its socket, or as many bytes as `short` says of its index.
        Only for queues of nothing but bytes.
        """
        all_bytes = 0
        for index, count in short.items():
            queues[index].sent(count)
        for queue in but(queues, short):
            all_bytes += queue.memory_bytes
            queue.memory_bytes = 0
            queue.parts.clear()
        metrics.bytes_out += all_bytes
        metrics.out_bytes -= all_bytes

    def clear(self) -> None:
        """Forget everything; the owners of files are let go."""
        memory_before = self.memory_bytes
        self.parts.clear()
        self.memory_bytes = 0
        self._count(0, memory_before)

    def _count(self, sent_bytes: int, memory_before: int) -> None:
        """So many bytes were given to the socket, and what they took of memory is as this queue has it by now."""
        self._metrics.bytes_out += sent_bytes
        self._metrics.out_bytes += self.memory_bytes - memory_before

    def send_only(self, transport: Transport) -> int:
        """Send the answer to one small request, where that is all there is; how many bytes were taken. A way that is
        lost is met again by `write_to`.
        """
        parts = self.parts
        if len(parts) != 1 or parts[0].__class__ is not bytes:
            return 0
        answer = parts[0]
        try:
            sent = transport.send(answer)
        except OSError:
            return 0
        if sent < len(answer):
            self.sent(sent)
            return sent
        parts.clear()
        self.memory_bytes -= sent
        metrics = self._metrics
        metrics.bytes_out += sent
        metrics.out_bytes -= sent
        return sent

    def write_to(self, transport: Transport) -> int:
        """Send until the transport takes no more, a turn's share is sent, or the disk has to be waited for; how many
        bytes were taken.

        Raises OSError when the connection is lost or a file ends early.
        """
        memory_before, self._turn_bytes = self.memory_bytes, 0
        try:
            while self.parts and self._turn_bytes < _TURN_BYTES:
                first = self.parts[0]
                if len(self.parts) == 1 and first.__class__ is bytes:
                    self._send_last(transport, first)
                elif type(first) is FileSlice and first.size > GATHER_MAX_BYTES and transport.sends_files:
                    if not self._is_first_at_hand(first):
                        break
                    if not self._send_slice(transport, first):
                        break  # it says when it has room again; to ask at once is to send in small pieces
                elif not self._send_gathered(transport):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        finally:
            self._count(self._turn_bytes, memory_before)
        return self._turn_bytes

    def _send_last(self, transport: Transport, part: bytes) -> None:
        """Send what is all there is: the answer to one small request, mostly."""
        sent = transport.send(part)
        self._turn_bytes += sent
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
        self._turn_bytes += sent
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
        self._turn_bytes += sent
        if sent == piece.size:
            del self.parts[0]
            self.memory_bytes -= SLICE_COST
            self._checked_bytes = 0
        else:
            self.parts[0] = self._rest(piece, sent)
            self._checked_bytes = max(self._checked_bytes - sent, 0)
        return sent == wanted
