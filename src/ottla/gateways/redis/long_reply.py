"""Replies with more entries than memory should hold: sent in pieces, each made when the one before is gone.

    Span    *N | node | node | node ...      what the stream held when the command ran; N is known without the entries
             piece ......| piece ...         made of nodes in memory, or read from the log and forgotten

What is deleted or added meanwhile changes nothing: the log still has what it had, and a span remembers which entries
were deleted before. A log of which spans are read is not freed, for a while at least.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.native import encode_entries

if TYPE_CHECKING:
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.stream import Stream

LONG_BYTES: Final = 1024 * 1024
"""Replies up to this size are made at once."""
NODES_A_TURN: Final = 500
PIECE_BYTES: Final = 256 * 1024
PART_BYTES: Final = 64 * 1024
NODE_BYTES: Final = 4_096
"""For a node of which the size is not known."""
FREED_A_TURN: Final = 2_000
HELD_MS: Final = 10 * 60 * 1000
"""So long a client may take for a reply, at least, before what was deleted meanwhile goes from the log."""


class SpanBrokenError(Exception):
    """Entries of a span are not where they were: the connection has to end, for a part of the reply is sent."""


class _Part(NamedTuple):
    """A node as it was when the command ran."""

    node: Node
    last_id: int
    floor: int
    removed: frozenset[int]

    @property
    def entries(self) -> dict[int, list[bytes]] | None:
        """Its entries, if they are in memory and none was deleted since."""
        node = self.node
        is_same = node.floor == self.floor and len(node.removed or ()) == len(self.removed)
        return node.entries if is_same else None

    @property
    def size(self) -> int:
        return self.node.size or NODE_BYTES


class Span:
    """Entries of a stream, `count` of them, in the order of the reply."""

    def __init__(
        self, stream: Stream, first: int, last: int, parts: list[_Part], count: int, *, is_reverse: bool
    ) -> None:
        self.count = count
        self._stream = stream
        self._first = first
        self._last = last
        self._parts = parts
        self._is_reverse = is_reverse
        self._held_from_ms: int | None = None
        stream.spans.add(self)

    def holds(self, now_ms: int) -> bool:
        """Whether the log is to keep what it has. Begins to count at the first call."""
        if self._held_from_ms is None:
            self._held_from_ms = now_ms
        return now_ms - self._held_from_ms < HELD_MS

    def end(self) -> None:
        """Nothing of it is needed any more. What it knows of nodes goes bit by bit."""
        self._stream.spans.discard(self)
        self._let_go()

    def _let_go(self) -> None:
        del self._parts[-FREED_A_TURN:]
        if self._parts:
            asyncio.get_running_loop().call_soon(self._let_go)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The array of the entries. Raises ApiError, SpanBrokenError."""
        yield b"*%d\r\n" % self.count
        left, at = self.count, 0
        while left and at < len(self._parts):
            group, size = [self._parts[at]], self._parts[at].size
            at += 1
            while at < len(self._parts) and size + self._parts[at].size <= PIECE_BYTES:
                size += self._parts[at].size
                group.append(self._parts[at])
                at += 1
            piece, count = await self._piece(group, left)
            left -= count
            yield piece
        if left:
            raise SpanBrokenError(f"{left} entries of a reply are not found any more")

    async def _piece(self, group: list[_Part], left: int) -> tuple[bytes, int]:
        """What some nodes have of the reply, `left` entries at most, and how many these are."""
        is_forward = not (self._is_reverse or any(part.node.is_adopted for part in group))
        if is_forward and any(part.entries is None for part in group):
            intervals = [self._interval(part) for part in group]
            removed = [each for part in group for each in part.removed]
            encoded = await self._stream.log.encode_entries(group[0].node.offset, intervals, removed, left)
            if encoded is not None:
                piece, count = encoded
                return piece, count
        found = await self._entries(group)
        chosen = [each for part in group for each in self._of_part(part, found)][:left]
        return encode_entries(chosen), len(chosen)

    def _interval(self, part: _Part) -> tuple[int, int]:
        """Which ids of a node belong to the span."""
        return max(self._first, part.floor, part.node.first_id), min(self._last, part.last_id)

    async def _entries(self, group: list[_Part]) -> dict[int, list[bytes]] | None:
        """What the log has of some nodes; None where all of them are in memory."""
        if all(part.entries is not None for part in group):
            return None
        parts = [(part.node, part.last_id) for part in (reversed(group) if self._is_reverse else group)]
        found: dict[int, list[bytes]] = await self._stream.log.read_parts(parts)
        return found

    def _of_part(self, part: _Part, found: dict[int, list[bytes]] | None) -> Iterator[tuple[int, list[bytes]]]:
        """The entries of a node that belong to the span."""
        first, last = self._interval(part)
        if found is None:
            entries = part.entries
            assert entries is not None, "nothing has run since they were looked for"
            ids = list(entries)
        else:
            entries, ids = found, list(found)
        ids = ids[bisect_left(ids, first) : bisect_right(ids, last)]
        for entry_id in reversed(ids) if self._is_reverse else ids:
            if entry_id not in part.removed:
                yield entry_id, entries[entry_id]


class LongReplyError(Exception):
    """A command is answered with these bytes and spans, one after the other."""

    def __init__(self, parts: list[bytes | Span]) -> None:
        super().__init__("a reply is sent in pieces")
        self.parts = parts

    def end(self) -> None:
        """The reply is sent, or will not be: logs need not keep anything for it."""
        for part in self.parts:
            if isinstance(part, Span):
                part.end()


def together(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Parts of a reply in larger ones; what is large by itself is not copied."""
    some: list[bytes] = []
    size = 0
    for part in parts:
        if size + len(part) > PART_BYTES:
            yield b"".join(some)
            some, size = [], 0
        some.append(part)
        size += len(part)
    yield b"".join(some)


def span_of(
    stream: Stream, first: int, last: int, count: int | None, *, is_reverse: bool = False
) -> Generator[None, None, Span | None]:
    """The span of an interval of ids, at most so many entries, found some nodes at a time; None for one that is not
    long. Raises NodeMissingError.
    """
    parts: list[_Part] = []
    left, size, total = count, 0, 0
    for number, index in enumerate(stream.indexes_of(first, last, is_reverse=is_reverse), 1):
        node = stream.nodes[index]
        parts.append(_Part(node, node.last_id, node.floor, frozenset(node.removed or ())))
        size += parts[-1].size
        within = node.count
        if node.first_id < first or node.last_id > last:
            within = sum(first <= entry_id <= last for entry_id in stream.entries_at(index))
        total += within
        if left is not None:
            left -= within
            if left <= 0:
                break
        if not number % NODES_A_TURN:
            yield
    if size <= LONG_BYTES:
        return None
    return Span(stream, first, last, parts, total if count is None else min(count, total), is_reverse=is_reverse)
