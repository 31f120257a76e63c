"""Buffers that requests are received into, lent to whoever still needs the bytes.

    view   | frame 1 | frame 2        | frame 3 |  free  |
             held      held by the log                         back to the pool when the last reference is released

A frame is handed out as a piece of the buffer it was received into. The log writes record batches from there, so the
bytes of a request are copied by nobody between the socket and the file. Each holder of a frame counts as a reference,
as it does in Netty.
"""

import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask

KIB = 1024

POOLED_SIZES = (16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1088 * KIB)
"""The sizes that are kept for use again. The largest holds a request of 1 MiB, the most that clients send unless they
are told otherwise, with its length and the beginning of the next one."""

SMALLEST, LARGEST = POOLED_SIZES[0], POOLED_SIZES[-1]

FREE_BYTES_MAX = 16 * KIB * KIB
"""How much a pool keeps for use again at any time, unless it is told otherwise."""

FADE_MS = 500
FADE_PARTS = 8
FADE_BYTES_MAX = 4 * KIB * KIB
"""What was in use lately loses an eighth each `FADE_MS`, of each size at most 4 MiB: to unmap that takes 1 ms of the
event loop. 64 MiB become 16 within 8 seconds."""


class ReceiveBuffer:
    """Writable bytes with a reference count. Belongs to the event loop.

    Whoever keeps a frame beyond the return of `on_frame` calls `retain` first and `release` once when done; after the
    last release the bytes are another request's.
    """

    __slots__ = ("_pool", "_size", "_storage", "capacity", "on_return", "reference_count", "view")

    def __init__(self, pool: "BufferPool", size: "_Size | None", capacity: int) -> None:
        """`size` is None for one that is not kept for use again."""
        self._pool = pool
        self._size = size
        # Pages of its own: they cost nothing until written to, can be moved, and go back to the system at once.
        self._storage = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.reference_count = 0
        """How many hold this buffer."""
        self.capacity = capacity
        self.view = memoryview(self._storage)
        self.on_return: Callable[[], None] | None = None
        """Called once when the last reference is released."""

    def retain(self) -> None:
        """Keep the bytes as they are until one more `release`."""
        assert self.reference_count > 0, "retain comes before the last release"
        self.reference_count += 1

    def release(self) -> None:
        """Give up one reference."""
        assert self.reference_count > 0, "every release needs a reference"
        self.reference_count -= 1
        if not self.reference_count:
            on_return, self.on_return = self.on_return, None
            if on_return is not None:
                on_return()
            self._pool._give_back(self, self._size)

    def grow(self, capacity: int) -> bool:
        """Make an unpooled buffer larger without a copy. False where that cannot be; then it is as it was.

        Only for the one holder of a buffer no piece of which is referenced.
        """
        if self.capacity <= LARGEST or self.reference_count != 1:
            return False
        self.view.release()
        try:
            self._storage.resize(capacity)
        except (SystemError, OSError, ValueError, BufferError):
            return False
        else:
            self._pool._lend(capacity - self.capacity)
            self.capacity = capacity
            return True
        finally:
            self.view = memoryview(self._storage)


class _Size:
    """The buffers of one size: those that are kept, how many are lent, and how many of them were lately."""

    __slots__ = ("capacity", "fading_max", "free", "lent", "lent_lately")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free: list[ReceiveBuffer] = []
        self.lent = 0
        self.lent_lately = 0
        self.fading_max = max(1, FADE_BYTES_MAX // capacity)

    def fade(self) -> int:
        """What was lent lately counts for less; how many buffers are kept beyond that."""
        faded = self.lent_lately - min(-(-self.lent_lately // FADE_PARTS), self.fading_max)
        self.lent_lately = max(self.lent, faded)
        return len(self.free) + self.lent - self.lent_lately


class BufferPool:
    """Lends buffers, and keeps some that came back for use again, those that were used last first.

    Fresh memory is dear, above all on a virtual machine and where the page cache fills memory: each page of it is
    zeroed, and often taken from the cache. So as many of each size are kept as were in use at the same time lately:

        free_bytes                 <=  free_bytes_max    or
        free_bytes + in_use_bytes  <=  bytes_max

    What is not used any more fades with the `timer`, until `free_bytes_max` bytes are left. Without a timer no more
    than those are kept. Larger buffers than `LARGEST` are not kept.
    """

    __slots__ = (
        "_bytes_max",
        "_fading",
        "_free_bytes_max",
        "_sizes",
        "_timer",
        "free_bytes",
        "in_use_bytes",
        "on_return",
    )

    def __init__(
        self, free_bytes_max: int = FREE_BYTES_MAX, *, bytes_max: int = 0, timer: "Timer | None" = None
    ) -> None:
        self._sizes = {capacity: _Size(capacity) for capacity in POOLED_SIZES}
        self._free_bytes_max = free_bytes_max
        self._bytes_max = bytes_max
        self._timer = timer
        self._fading: TimerTask | None = None
        self.free_bytes = 0
        """Bytes kept for use again."""
        self.in_use_bytes = 0
        """Bytes lent."""
        self.on_return: Callable[[], None] | None = None
        """Called after each buffer that came back."""

    def take(self, capacity: int) -> ReceiveBuffer:
        """A buffer of at least `capacity` bytes with one reference. Its content is left over from earlier use."""
        size = self._sizes.get(capacity)
        if size is None:
            capacity = pooled_size(capacity)
            size = self._sizes.get(capacity)
        if size is not None:
            size.lent += 1
            if size.lent > size.lent_lately:
                size.lent_lately = size.lent
        if size is not None and size.free:
            buffer = size.free.pop()
            self.free_bytes -= capacity
            self.in_use_bytes += capacity
        else:
            buffer = ReceiveBuffer(self, size, capacity)
            self._lend(capacity)
        buffer.reference_count = 1
        return buffer

    def _lend(self, count: int) -> None:
        """So many bytes more are in use, that were not kept: what is kept makes room for them."""
        self.in_use_bytes += count
        if self.free_bytes > self._free_bytes_max:
            excess = self.free_bytes - max(self._free_bytes_max, self._bytes_max - self.in_use_bytes)
            while excess > 0:
                most = max(self._sizes.values(), key=_free_bytes_of)
                excess -= self._give_up(most, -(-excess // most.capacity))

    def _give_back(self, buffer: ReceiveBuffer, size: _Size | None) -> None:
        self.in_use_bytes -= buffer.capacity
        if size is not None:
            size.lent -= 1
            free_bytes = self.free_bytes + size.capacity
            if free_bytes <= self._free_bytes_max or self._keeps(size, free_bytes):
                size.free.append(buffer)
                self.free_bytes = free_bytes
        if self.on_return is not None:
            self.on_return()

    def _keeps(self, size: _Size, free_bytes: int) -> bool:
        """Whether one more of a size is kept beyond what is always kept: it was in use with the others lately."""
        if (
            self._timer is None
            or len(size.free) + size.lent >= size.lent_lately
            or free_bytes + self.in_use_bytes > self._bytes_max
        ):
            return False
        if self._fading is None:
            self._fading = self._timer.schedule(FADE_MS, self._fade)
        return True

    def _fade(self) -> None:
        """What was in use lately counts for less, and what is kept beyond it goes back to the system."""
        assert self._timer is not None
        for size in self._sizes.values():
            excess = min(size.fade(), -(-(self.free_bytes - self._free_bytes_max) // size.capacity))
            if excess > 0:
                self._give_up(size, excess)
        is_over = self.free_bytes <= self._free_bytes_max
        self._fading = None if is_over else self._timer.schedule(FADE_MS, self._fade)

    def _give_up(self, size: _Size, count: int) -> int:
        """Give at most `count` buffers of a size back to the system, those unused for longest; the bytes they had."""
        count = min(len(size.free), count)
        del size.free[:count]
        self.free_bytes -= count * size.capacity
        return count * size.capacity


def _free_bytes_of(size: _Size) -> int:
    return size.capacity * len(size.free)


def pooled_size(size: int) -> int:
    """The smallest pooled size that holds `size` bytes; `size` itself when none does."""
    for capacity in POOLED_SIZES:
        if size <= capacity:
            return capacity
    return size
