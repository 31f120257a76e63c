"""How many requests are worked on by tasks at a time, over all connections.

A decoded request is up to a hundred times as large as its bytes, and one whose handler waits, for the controller or for
a disk, stays decoded. So those that run are counted by their bytes, and who comes when that is too much waits as bytes.

    small requests  | a look-up | a look-up | a look-up |                 |  three quarters
    large requests  | 10,000 topics to be created           | waiting ... |  one quarter, or one request

Small ones have a share of their own: ten thousand clients that look for their leaders or their coordinator do not wait
behind somebody who creates ten thousand topics.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

TASK_BYTES_MAX: Final = 1 << 20
"""Bytes of requests that are worked on by tasks. Ten thousand clients that look for their coordinator stay below."""

SMALL_BYTES_MAX: Final = 4096
"""The largest request that counts as small."""


class TaskGate:
    """Admits requests while they fit, the longest waiting first; a large one alone always fits.

    Belongs to the event loop.
    """

    __slots__ = ("_large", "_small")

    def __init__(self, bytes_max: int = TASK_BYTES_MAX) -> None:
        self._large = _Share(bytes_max // 4)
        self._small = _Share(bytes_max - bytes_max // 4)

    @property
    def bytes_inside(self) -> int:
        """Bytes of the requests that were let in and are not done."""
        return self._small.bytes_inside + self._large.bytes_inside

    @property
    def waiting_count(self) -> int:
        """How many requests wait."""
        return len(self._small.waiting) + len(self._large.waiting)

    def admit(self, size: int, on_admitted: Callable[[], None]) -> None:
        """Let a request of `size` bytes in when it fits, which may be now; then `on_admitted` is called.

        `leave` follows when the request is done.
        """
        share = self._share(size)
        share.waiting.append((size, on_admitted))
        share.admit()

    def leave(self, size: int) -> None:
        """A request that was let in is done."""
        share = self._share(size)
        share.bytes_inside -= size
        share.admit()

    def _share(self, size: int) -> "_Share":
        return self._small if size <= SMALL_BYTES_MAX else self._large


class _Share:
    """What is inside and who waits, of the small or of the large requests."""

    __slots__ = ("_bytes_max", "_is_admitting", "bytes_inside", "waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._is_admitting = False
        self.bytes_inside = 0
        self.waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def admit(self) -> None:
        """Let in who fits. Who is let in may be done at once, or have somebody else admitted."""
        if self._is_admitting:
            return
        self._is_admitting = True
        waiting = self.waiting
        try:
            while waiting and (not self.bytes_inside or self.bytes_inside + waiting[0][0] <= self._bytes_max):
                size, on_admitted = waiting.popleft()
                self.bytes_inside += size
                on_admitted()
        finally:
            self._is_admitting = False
