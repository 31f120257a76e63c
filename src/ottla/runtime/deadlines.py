"""Deadlines of many short operations that nearly all end long before: a queue for each length of time.

    30 s   | a | b | c | d |      in the order they began, so the first is due first; one timer for each queue
    10 s   | e |

An operation that is over stays in its queue until the ones before it are over too, and is dropped by whoever adds the
next, or until the queue has doubled: so it holds twice as many as wait at most, and some. To add costs an append; a
timer of its own in the timing wheel, set and cancelled, costs ten times that.
"""

import logging
from collections import deque
from typing import Final, Protocol

from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

STEP_MS: Final = 100
"""Lengths are rounded up to a multiple of this, so that clients cannot make a queue for each millisecond."""

EXACT_MS_MAX: Final = 300_000
"""Longer ones are rare, and rounded up by a 32nd of what they are at most: so there are 3,500 queues at most, and what
is over is dropped from them as from the others. A timer of its own would hold it to the end of its time."""

LOOKED_THROUGH_MIN: Final = 64
"""A queue that is so long is looked through for what is over behind one that is not, whenever it has doubled since."""


class Expiring(Protocol):
    """Something with a deadline."""

    @property
    def is_over(self) -> bool:
        """Whether it ended by itself."""
        ...

    def expire(self) -> None:
        """The time is up. Does nothing when it is over already."""
        ...


class Deadlines:
    """Tells operations that their time is up, at most `STEP_MS` or a 32nd of it late. Belongs to one event loop.

    One that raises is logged; those behind it hear in time all the same.
    """

    __slots__ = ("_clock", "_limits", "_queues", "_timer")

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._queues: dict[int, deque[tuple[int, Expiring]]] = {}
        self._limits: dict[int, int] = {}
        """How long each queue may be before it is looked through."""

    def __len__(self) -> int:
        """How many operations wait that are not over."""
        return sum(not operation.is_over for queue in self._queues.values() for _, operation in queue)

    def add(self, operation: Expiring, timeout_ms: int) -> None:
        """Call `operation.expire` in `timeout_ms`, unless it is over by then."""
        step_ms = STEP_MS if timeout_ms <= EXACT_MS_MAX else 1 << (timeout_ms.bit_length() - 6)
        length_ms = -(-timeout_ms // step_ms) * step_ms
        queue = self._queues.get(length_ms)
        if queue is None:
            queue = self._queues[length_ms] = deque()
            self._limits[length_ms] = LOOKED_THROUGH_MIN
            self._watch(length_ms, length_ms)
        while queue and queue[0][1].is_over:
            queue.popleft()
        if len(queue) >= self._limits[length_ms]:
            queue = self._queues[length_ms] = deque([each for each in queue if not each[1].is_over])
            self._limits[length_ms] = max(LOOKED_THROUGH_MIN, 2 * len(queue))
        queue.append((self._clock.monotonic_ms() + length_ms, operation))

    def _watch(self, length_ms: int, delay_ms: int) -> None:
        self._timer.schedule(delay_ms, lambda: self._on_due(length_ms))

    def _on_due(self, length_ms: int) -> None:
        queue = self._queues[length_ms]
        now_ms = self._clock.monotonic_ms()
        while queue and (queue[0][1].is_over or queue[0][0] <= now_ms):
            try:
                queue.popleft()[1].expire()
            except Exception:
                logger.exception("an operation failed at its deadline")
        if queue:
            self._watch(length_ms, queue[0][0] - now_ms)
        else:
            del self._queues[length_ms], self._limits[length_ms]
