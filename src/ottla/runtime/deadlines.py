"""Deadlines of many short operations that nearly all end long before: a queue for each length of time.

    30 s   | a | b | c | d |      in the order they began, so the first is due first; one timer for each queue
    10 s   | e |

An operation that is over stays in its queue until the ones before it are over too, and is dropped by whoever adds the
next. To add costs an append; a timer of its own in the timing wheel, set and cancelled, costs ten times that.
"""

import logging
from collections import deque
from typing import Final, Protocol

from ottla.runtime.clock import Clock
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

STEP_MS: Final = 100
"""Lengths are rounded up to a multiple of this, so that clients cannot make a queue for each millisecond."""

QUEUED_MS_MAX: Final = 300_000
"""Longer ones are rare and get a timer of their own: with `STEP_MS` there are at most 3,000 queues."""


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
    """Tells operations that their time is up, at most `STEP_MS` late. Belongs to one event loop.

    One that raises is logged; those behind it hear in time all the same.
    """

    __slots__ = ("_clock", "_queues", "_timer")

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._queues: dict[int, deque[tuple[int, Expiring]]] = {}

    def __len__(self) -> int:
        """How many operations wait that are not over."""
        return sum(not operation.is_over for queue in self._queues.values() for _, operation in queue)

    def add(self, operation: Expiring, timeout_ms: int) -> None:
        """Call `operation.expire` in `timeout_ms`, unless it is over by then."""
        if timeout_ms > QUEUED_MS_MAX:
            self._timer.schedule(timeout_ms, operation.expire)
            return
        length_ms = -(-timeout_ms // STEP_MS) * STEP_MS
        queue = self._queues.get(length_ms)
        if queue is None:
            queue = self._queues[length_ms] = deque()
            self._watch(length_ms, length_ms)
        while queue and queue[0][1].is_over:
            queue.popleft()
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
                logger.exception("an operation failed when its time was up")
        if queue:
            self._watch(length_ms, queue[0][0] - now_ms)
        else:
            del self._queues[length_ms]
