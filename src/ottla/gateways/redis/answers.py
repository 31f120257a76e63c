"""The answers of one connection, in their order: each leaves once the changes that it rests on are on disk.

answers --> Chunk, held until what it rests on is on disk --> socket
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.long_reply import Span
from ottla.gateways.redis.stream_log import Flush, are_lost

if TYPE_CHECKING:
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.network.connection import Connection

LOST: Final = "changes of a client could not be written: what became of them is not known to it"


class LostError(Exception):
    """It is not known whether commands have run."""


class _Chunk:
    """Answers that leave together, once the changes they rest on are on disk."""

    __slots__ = ("data", "ends", "is_lost", "undecided")

    def __init__(self, data: bytes, ends: str | None) -> None:
        self.data = data
        self.ends = ends  # why the connection ends behind it
        self.is_lost = False
        self.undecided = 0


class Answers:
    """Belongs to the event loop."""

    def __init__(
        self,
        connection: Connection,
        keyspace: Keyspace,
        on_sent: Callable[[int], None],
        on_room: Callable[[], None],
        on_left: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`on_sent` is called with the bytes of what is about to leave, `on_room` when the socket takes more again,
        `on_left` when nothing waits for the disk any more, `on_end` when an answer left behind which the connection
        ends, or one was lost.
        """
        self._connection = connection
        self._keyspace = keyspace
        self._on_sent = on_sent
        self._on_room = on_room
        self._on_left = on_left
        self._on_end = on_end
        self._parts: list[bytes] = []
        self._chunks: deque[_Chunk] = deque()
        self._room = asyncio.Event()
        self.size = 0
        """Bytes of answers that are in no chunk yet."""
        self.is_full = False
        """Whether the socket takes no more for now."""

    @property
    def are_waiting(self) -> bool:
        """Whether some have not left, for what they rest on is not on disk."""
        return bool(self._chunks)

    def add(self, data: bytes) -> None:
        """One more answer."""
        self._parts.append(data)
        self.size += len(data)

    def take_awaited(self) -> set[Flush]:
        """The changes that the answers since the last chunk rest on, and those of no other rest on."""
        keyspace = self._keyspace
        awaited, keyspace.awaited = keyspace.awaited, set()
        return awaited

    def finish(self, ends: str | None) -> None:
        """What has been answered leaves when what it rests on is on disk; behind it the connection ends, or not."""
        if not self._parts:
            return
        chunk = _Chunk(b"".join(self._parts), ends)
        self._parts = []
        self.size = 0
        self._chunks.append(chunk)
        self._on_sent(len(chunk.data))
        for flush in self.take_awaited():
            if not flush.is_done:
                chunk.undecided += 1
                flush.waiters.append(lambda flush=flush: self._decided(chunk, flush.error))  # type: ignore[misc]
            elif flush.error is not None:
                chunk.is_lost = True
        if not chunk.undecided:
            self._send()

    async def send_long(self, parts: list[bytes | Span], awaited: set[Flush]) -> None:
        """Send a reply in pieces, each made when those before are gone. Raises LostError, ApiError, SpanBrokenError."""
        if await are_lost(awaited):
            raise LostError("changes that a reply shows were not written")
        for number, part in enumerate(parts):
            if isinstance(part, bytes):
                parts[number] = b""  # a large reply is freed as it goes
                await self._send_piece(part)
                continue
            async for piece in part.pieces():
                await self._send_piece(piece)

    async def _send_piece(self, piece: bytes) -> None:
        self.add(piece)
        self.finish(None)
        while self.is_full or self._chunks:
            self._room.clear()
            await self._room.wait()

    def clear(self) -> None:
        """Nothing more is sent."""
        self._chunks.clear()

    def _decided(self, chunk: _Chunk, error: str | None) -> None:
        chunk.undecided -= 1
        if error is not None:
            chunk.is_lost = True
        if not chunk.undecided:
            self._send()

    def _send(self) -> None:
        """Send the answers whose turn it is."""
        ready: list[bytes] = []
        chunks = self._chunks
        ends = None
        while chunks and not chunks[0].undecided and ends is None:
            chunk = chunks.popleft()
            if chunk.is_lost:
                ends = LOST
                break
            ready.append(chunk.data)
            ends = chunk.ends
        if ready and not self._connection.push_answer((b"".join(ready),), self._took):
            self.is_full = True
        self._room.set()
        if ends is not None:
            chunks.clear()
            self._on_end(ends)
        elif not chunks:
            self._on_left()

    def _took(self) -> None:
        self.is_full = False
        self._room.set()
        self._on_room()
