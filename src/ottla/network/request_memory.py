"""The bound on the memory that requests take, over all connections (`queued.max.request.bytes`).

    budget   |  requests being handled      |  requests of which a part has arrived  |
             |  at most half, then nobody   |  at most half, then one request grows  |
             |  reads                       |  at a time, whoever waited longest     |

Requests that are being handled always end, so the left half always drains. A request of which a part has arrived may
never be completed by its peer, so the right half may stay full; requests of up to 16 KiB need no share in it and flow
on, and one large request at a time may grow beyond it, so that there is always one that can complete. Whoever holds
part of a request and sends nothing for `stalled_ms` while others wait for memory is closed.

The bound, for any number of hostile peers: the budget, and one request of `socket.request.max.bytes`, and 16 KiB for
each connection, and what the pool keeps for use again: 16 MiB, and beyond that only what is left of the budget.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.network.receive_buffer import SMALLEST, BufferPool, ReceiveBuffer
from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

T = TypeVar("T")

_CHECKS_PER_STALL = 4


class Reader(Protocol):
    """A connection, as far as its use of memory goes."""

    def resume_for_memory(self) -> None:
        """There may be memory now: read at once, or ask again later."""
        ...

    def close_for_memory(self, stalled_ms: int) -> None:
        """Others wait for the memory of a request that has not moved for so long."""
        ...


class RequestMemory:
    """Decides who may take receive buffers. Belongs to the event loop.

    A reader that is refused waits; `resume_for_memory` is called in a later turn of the loop, for those who want to
    begin a request all at once, for those whose request grows one by one, the longest waiting first.
    """

    __slots__ = (
        "_assembling_bytes",
        "_call_soon",
        "_check",
        "_clock",
        "_exempt",
        "_half",
        "_holdings",
        "_is_wake_scheduled",
        "_stalled_ms",
        "_timer",
        "_waiting_to_begin",
        "_waiting_to_grow",
        "pool",
    )

    def __init__(
        self,
        budget_bytes: int,
        *,
        stalled_ms: int,
        clock: Clock,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], object],
        pool: BufferPool | None = None,
    ) -> None:
        self.pool = BufferPool(bytes_max=budget_bytes, timer=timer) if pool is None else pool
        self._half = budget_bytes // 2
        self._stalled_ms = stalled_ms
        self._clock = clock
        self._timer = timer
        self._call_soon = call_soon
        self._assembling_bytes = 0
        self._holdings: dict[Reader, _Holding] = {}
        self._waiting_to_begin: OrderedDict[Reader, None] = OrderedDict()
        self._waiting_to_grow: OrderedDict[Reader, int] = OrderedDict()
        self._exempt: Reader | None = None
        self._is_wake_scheduled = False
        self._check: TimerTask | None = None

    @property
    def assembling_bytes(self) -> int:
        """Bytes of buffers held for requests of which a part has arrived."""
        return self._assembling_bytes

    @property
    def handled_bytes(self) -> int:
        """Bytes of buffers lent for requests that are being handled."""
        return self.pool.in_use_bytes - self._assembling_bytes

    @property
    def waiting_count(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting_to_begin) + len(self._waiting_to_grow)

    def take_to_begin(self, reader: Reader, size: int) -> ReceiveBuffer | None:
        """A buffer for the beginning of a request; None when `reader` has to wait.

        It has `size` bytes, or just 16 KiB while the half of the unfinished requests is used up.
        """
        if self.pool.in_use_bytes - self._assembling_bytes >= self._half:
            self._wait(self._waiting_to_begin, reader, None)
            return None
        return self.pool.take(size if self._assembling_bytes + size <= self._half else SMALLEST)

    def take_to_share(self, size: int) -> ReceiveBuffer | None:
        """A buffer for the requests of many; None while there is no memory to begin a request. Nobody waits for it."""
        pool = self.pool
        return pool.take(size) if pool.in_use_bytes - self._assembling_bytes < self._half else None

    def permits(self, reader: Reader, size: int) -> bool:
        """Whether `reader` may hold `size` bytes for a request of which a part has arrived; if not, it has to wait."""
        if self._may_hold(reader, size):
            return True
        self._wait(self._waiting_to_grow, reader, size)
        return False

    def fits(self, size: int) -> bool:
        """Whether `size` bytes more would fit the half of the unfinished requests."""
        return self._assembling_bytes + size <= self._half

    def hold(self, reader: Reader, size: int) -> None:
        """Say how much `reader` holds from now on for a request of which a part has arrived; 0 when it is complete."""
        holding = self._holdings.get(reader)
        if size:
            now_ms = self._clock.monotonic_ms()
            if holding is None:
                self._holdings[reader] = _Holding(size, now_ms)
                self._assembling_bytes += size
            else:
                self._assembling_bytes += size - holding.size
                holding.size, holding.moved_ms = size, now_ms
            return
        if self._exempt is reader:
            self._exempt = None
        if holding is not None:
            del self._holdings[reader]
            self._assembling_bytes -= holding.size
        self._on_change()

    def forget(self, reader: Reader) -> None:
        """The connection is closed."""
        self._waiting_to_begin.pop(reader, None)
        self._waiting_to_grow.pop(reader, None)
        self.hold(reader, 0)

    def _may_hold(self, reader: Reader, size: int) -> bool:
        if self.handled_bytes >= self._half:
            return False
        if size <= SMALLEST:
            return True
        holding = self._holdings.get(reader)
        if self._assembling_bytes - (holding.size if holding else 0) + size <= self._half:
            return True
        if self._exempt is None:
            self._exempt = reader
        return self._exempt is reader

    def _wait(self, queue: dict[Reader, T], reader: Reader, value: T) -> None:
        queue[reader] = value
        self.pool.on_return = self._on_change
        if self._check is None:
            self._check = self._timer.schedule(self._stalled_ms // _CHECKS_PER_STALL, self._close_stalled)

    def _on_change(self) -> None:
        if not self._waiting_to_grow and not self._waiting_to_begin:
            self.pool.on_return = None
        elif not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self._call_soon(self._wake)

    def _wake(self) -> None:
        """In a turn of its own: what those who go on read frees memory too."""
        self._is_wake_scheduled = False
        while self._waiting_to_grow:
            reader, size = next(iter(self._waiting_to_grow.items()))
            if not self._may_hold(reader, size):
                break
            del self._waiting_to_grow[reader]
            if holding := self._holdings.get(reader):
                holding.moved_ms = self._clock.monotonic_ms()
            reader.resume_for_memory()
        while self._waiting_to_begin and self.handled_bytes < self._half:
            reader = next(iter(self._waiting_to_begin))
            del self._waiting_to_begin[reader]
            reader.resume_for_memory()

    def _close_stalled(self) -> None:
        self._check = None
        latest_ms = self._clock.monotonic_ms() - self._stalled_ms
        for reader, holding in tuple(self._holdings.items()):
            if holding.moved_ms <= latest_ms and reader not in self._waiting_to_grow:
                reader.close_for_memory(self._stalled_ms)
        if self.waiting_count:
            self._check = self._timer.schedule(self._stalled_ms // _CHECKS_PER_STALL, self._close_stalled)


class _Holding:
    """What a connection holds for a request that is not complete, and when it last moved."""

    __slots__ = ("moved_ms", "size")

    def __init__(self, size: int, moved_ms: int) -> None:
        self.size = size
        self.moved_ms = moved_ms
