"""The answers to what arrives on one connection, each at its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.network.response_queue import ResponseSlot


class Piece:
    """What arrived at once: its slot is filled when the commands in it are answered."""

    __slots__ = ("open_count", "slot")

    def __init__(self, slot: ResponseSlot) -> None:
        self.slot = slot
        self.open_count = 1  # the reading of it

    def done(self) -> None:
        """A command of it is answered, or all of it is read."""
        self.open_count -= 1
        if not self.open_count:
            self.slot.send(())


class Answer:
    """The place of an answer among those of the connection; None until it is known."""

    __slots__ = ("data", "ends", "piece", "then")

    def __init__(self, piece: Piece) -> None:
        self.data: bytes | None = None
        self.ends: str | None = None  # why the connection ends behind it
        self.then: Callable[[Piece], None] | None = None  # what is done once it is sent
        self.piece = piece
        piece.open_count += 1


class Answers:
    """Those of one connection, sent in the order of their commands. Belongs to the event loop."""

    def __init__(self, send: Callable[[bytes], None], end: Callable[[str], None]) -> None:
        """`end` ends the connection, and is told why."""
        self._send = send
        self._end = end
        self._waiting: deque[Answer] = deque()

    def place(self, piece: Piece) -> Answer:
        """The place of the next answer."""
        answer = Answer(piece)
        self._waiting.append(answer)
        return answer

    def give_now(self, piece: Piece, data: bytes) -> None:
        """Answer what has just been read."""
        self.give(self.place(piece), data)

    def give(self, answer: Answer, data: bytes) -> None:
        """Send it when those before it have been sent."""
        answer.data = data
        ready: list[bytes] = []
        ends = None
        while self._waiting and self._waiting[0].data is not None and ends is None:
            first = self._waiting.popleft()
            assert first.data is not None
            ready.append(first.data)
            ends = first.ends
            if first.then is not None:
                self._send(b"".join(ready))
                ready.clear()
                first.then(first.piece)
            first.piece.done()
        if ready:
            self._send(b"".join(ready))
        if ends is not None:
            self.give_up()
            self._end(ends)

    def give_up(self) -> None:
        """The connection is gone, or about to be: nothing more is answered."""
        for answer in self._waiting:
            answer.piece.done()
        self._waiting.clear()
