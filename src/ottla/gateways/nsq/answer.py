"""The answers to what arrives on one connection, each at its place."""

from __future__ import annotations

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
