"""Appends that wait while the files of their log change places (`ottla.storage.log_swap`): some milliseconds.

Nobody is refused: a coordinator whose append is refused throws its memory away, and a producer tries again with what it
sent after it. What waits is appended in the order it came.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.replication.acknowledgement import AppendAck, OnAck

HELD_MAX: Final = 10_000
"""How many appends of clients wait in one partition: the memory of their bytes is that of their requests."""


class HeldAppend(Struct, frozen=True):
    """Does the append, or tells whoever sent it why not."""

    append: Callable[[], None]
    on_ack: OnAck
    on_buffer_free: Callable[[], None] | None

    def refuse(self, error: ErrorCode, message: str) -> None:
        """Nothing was appended."""
        if self.on_buffer_free is not None:
            self.on_buffer_free()
        self.on_ack(AppendAck(error, message))


class HeldAppends:
    """Those of one partition. Belongs to the event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[HeldAppend] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a client has to try again."""
        return len(self._waiting) >= HELD_MAX

    def add(self, append: HeldAppend) -> None:
        """Have an append wait behind the others."""
        self._waiting.append(append)

    def release(self) -> None:
        """Do what waits."""
        while self._waiting:
            self._waiting.popleft().append()

    def fail(self, error: ErrorCode, message: str) -> None:
        """Answer everybody with an error."""
        while self._waiting:
            self._waiting.popleft().refuse(error, message)
