"""Buffers that requests are received into, lent to whoever still needs the bytes.

    view   | frame 1 | frame 2        | frame 3 |  free  |
             held      held by the log                         back to the pool when the last reference is released

A frame is handed out as a piece of the buffer it was received into. The log writes record batches from there, so the
bytes of a request are copied by nobody between the socket and the file. Each holder of a frame counts as a reference,
as it does in Netty.
"""

import mmap
from collections.abc import Callable

KIB = 1024

POOLED_SIZES = (16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1088 * KIB)
"""The sizes that are kept for use again. The largest holds a request of 1 MiB, the most that clients send unless they
are told otherwise, with its length and the beginning of the next one."""

SMALLEST, LARGEST = POOLED_SIZES[0], POOLED_SIZES[-1]

FREE_BYTES_MAX = 16 * KIB * KIB
"""How much a pool keeps for use again, unless it is told otherwise."""


class ReceiveBuffer:
    """Writable bytes with a reference count. Belongs to the event loop.

    Whoever keeps a frame beyond the return of `on_frame` calls `retain` first and `release` once when done; after the
    last release the bytes are another request's.
    """

    __slots__ = ("_pool", "_storage", "capacity", "on_return", "reference_count", "view")

    def __init__(self, pool: "BufferPool", capacity: int) -> None:
        self._pool = pool
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
            self._pool._give_back(self)

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
            self._pool.in_use_bytes += capacity - self.capacity
            self.capacity = capacity
            return True
        finally:
            self.view = memoryview(self._storage)


class BufferPool:
    """Lends buffers, and keeps some that came back: at most `free_bytes_max` bytes of them.

    Fresh memory is dear, above all on a virtual machine, so a buffer that was just used is lent again first.
    """

    __slots__ = ("_free", "_free_bytes_max", "free_bytes", "in_use_bytes", "on_return")

    def __init__(self, free_bytes_max: int = FREE_BYTES_MAX) -> None:
        self._free: dict[int, list[ReceiveBuffer]] = {size: [] for size in POOLED_SIZES}
        self._free_bytes_max = free_bytes_max
        self.free_bytes = 0
        """Bytes kept for use again."""
        self.in_use_bytes = 0
        """Bytes lent."""
        self.on_return: Callable[[], None] | None = None
        """Called after each buffer that came back."""

    def take(self, size: int) -> ReceiveBuffer:
        """A buffer of at least `size` bytes with one reference. Its content is left over from earlier use."""
        free = self._free.get(size)
        if free is None:
            size = pooled_size(size)
            free = self._free.get(size)
        capacity = size
        if free:
            buffer = free.pop()
            self.free_bytes -= capacity
        else:
            buffer = ReceiveBuffer(self, capacity)
        buffer.reference_count = 1
        self.in_use_bytes += capacity
        return buffer

    def _give_back(self, buffer: ReceiveBuffer) -> None:
        capacity = buffer.capacity
        self.in_use_bytes -= capacity
        if capacity <= LARGEST and self.free_bytes + capacity <= self._free_bytes_max:
            self._free[capacity].append(buffer)
            self.free_bytes += capacity
        if self.on_return is not None:
            self.on_return()


def pooled_size(size: int) -> int:
    """The smallest pooled size that holds `size` bytes; `size` itself when none does."""
    for capacity in POOLED_SIZES:
        if size <= capacity:
            return capacity
    return size
