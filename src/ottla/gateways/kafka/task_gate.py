"""How many requests are worked on by tasks at a time, over all connections.

A decoded request is up to a hundred times as large as its bytes, and one whose handler waits, for the controller or for
a disk, stays decoded. So those that run are counted by their bytes, and who comes when that is too much waits as bytes.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

TASK_BYTES_MAX: Final = 1 << 20
"""Bytes of requests that are worked on by tasks. Ten thousand clients that look for their coordinator stay below."""


class TaskGate:
    """Admits requests while they fit, the longest waiting first; one alone always fits. Belongs to the event loop."""

    __slots__ = ("_bytes_max", "_is_admitting", "_waiting", "bytes_inside")

    def __init__(self, bytes_max: int = TASK_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_admitting = False
        self.bytes_inside = 0

    @property
    def waiting_count(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def enter(self, size: int) -> bool:
        """Whether a request of `size` bytes is let in at once; `leave` follows."""
        if self._waiting or not self._fits(size):
            return False
        self.bytes_inside += size
        return True

    def wait(self, size: int, on_admitted: Callable[[], None]) -> None:
        """Be let in later: then `on_admitted` is called, and `leave` follows as after `enter`."""
        self._waiting.append((size, on_admitted))
        self._admit()

    def leave(self, size: int) -> None:
        """A request that was let in is done."""
        self.bytes_inside -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return not self.bytes_inside or self.bytes_inside + size <= self._bytes_max

    def _admit(self) -> None:
        if self._is_admitting:
            return
        self._is_admitting = True
        try:
            while self._waiting and self._fits(self._waiting[0][0]):
                size, on_admitted = self._waiting.popleft()
                self.bytes_inside += size
                on_admitted()
        finally:
            self._is_admitting = False
