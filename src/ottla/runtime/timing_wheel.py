"""Many timers at little cost: hierarchical timing wheels.

Level 0 has a bucket for each tick; the bucket of a higher level spans one whole turn of the level below. A task lies in
the lowest level that reaches its expiry. When time enters the span of a higher bucket, its tasks move down.

    tick 1 ms, 64 buckets a level, now = 1000

    level 0   1 ms a bucket    [1000][1001] ... [1063]                  + 7 ms: here, in the bucket of 1007
    level 1   64 ms a bucket   [960..1023][1024..1087] ... [..4991]     + 500 ms: in 1472..1535
    level 2   4.1 s a bucket   [0..4095][4096..8191] ... [..262143]     made when the first task needs it

    heap      (1007, level 0) (1472, level 1): the buckets that hold something, by the time they begin

To add a task is to choose a bucket by division, to cancel it is to take it out of that bucket's table: both O(1),
whatever the number of timers. The heap holds buckets, not tasks, and only those in use, so an idle wheel has nothing to
do and nothing to look at: whoever drives it sleeps until `next_expiry_ms`.

Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme 7; the heap of buckets, in place of a
tick that visits empty ones, is Apache Kafka's idea.
"""

from collections.abc import Callable
from heapq import heappop, heappush

_NOT_QUEUED = -1


class TimerTask:
    """A callback that is due at `expiry_ms`, unless `cancel` comes first."""

    __slots__ = ("_bucket", "_wheel", "callback", "expiry_ms")

    def __init__(self, callback: Callable[[], object], expiry_ms: int, wheel: "TimingWheel") -> None:
        self.callback = callback
        self.expiry_ms = expiry_ms
        self._wheel = wheel
        self._bucket: _Bucket | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is neither due nor cancelled yet."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Forget the task. False when it was already due or cancelled."""
        bucket = self._bucket
        if bucket is None:
            return False
        del bucket.tasks[self]
        self._bucket = None
        self._wheel._count -= 1
        return True


class _Bucket:
    """The tasks of one span of time, in the order they came."""

    __slots__ = ("expiry_ms", "tasks")

    def __init__(self) -> None:
        self.expiry_ms = _NOT_QUEUED
        self.tasks: dict[TimerTask, None] = {}


class _Level:
    """One wheel: `size` buckets of `tick_ms` each, beginning with the one that `current_ms` lies in."""

    __slots__ = ("buckets", "current_ms", "interval_ms", "tick_ms")

    def __init__(self, tick_ms: int, size: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * size
        self.current_ms = now_ms - now_ms % tick_ms
        self.buckets = [_Bucket() for _ in range(size)]


class TimingWheel:
    """Timers as a pure structure: time comes in as an argument and never goes back, due tasks come out as values.

    A task is never due early; it is due up to `tick_ms` late when the tick is coarser than a millisecond.
    """

    __slots__ = ("_count", "_heap", "_levels", "_size", "_tick_ms")

    def __init__(self, now_ms: int, *, tick_ms: int = 1, size: int = 64) -> None:
        if tick_ms < 1 or size < 2:
            raise ValueError(f"a wheel needs a tick of at least 1 ms and 2 buckets, not {tick_ms} ms and {size}")
        self._tick_ms = tick_ms
        self._size = size
        self._levels = [_Level(tick_ms, size, now_ms)]
        self._heap: list[tuple[int, int, _Bucket]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, callback: Callable[[], object], expiry_ms: int, now_ms: int) -> TimerTask:
        """Have `callback` come out of the first `advance` to `expiry_ms` or later. One in the past is due at once."""
        head_ms = self.next_expiry_ms()
        self._turn_to(now_ms if head_ms is None else min(now_ms, head_ms))
        task = TimerTask(callback, expiry_ms, self)
        self._count += 1
        self._place(task)
        return task

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Let time pass to `now_ms`; the tasks that became due, by expiry.

        A task that is given out can no longer be cancelled; the caller runs it.
        """
        due: list[TimerTask] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            begin_ms, level, bucket = heappop(heap)
            tasks, bucket.tasks, bucket.expiry_ms = bucket.tasks, {}, _NOT_QUEUED
            self._turn_to(begin_ms)
            if level:
                for task in tasks:
                    self._place(task)
            else:
                for task in tasks:
                    task._bucket = None
                due.extend(tasks)
        self._turn_to(now_ms)
        self._count -= len(due)
        return due

    def next_expiry_ms(self) -> int | None:
        """When to call `advance` next; None when there is nothing to wait for.

        For a task further away than the lowest level reaches it is the time to move it down, before its expiry.
        """
        heap = self._heap
        while heap and not heap[0][2].tasks:
            heappop(heap)[2].expiry_ms = _NOT_QUEUED
        return heap[0][0] if heap else None

    def _place(self, task: TimerTask) -> None:
        tick_ms = self._tick_ms
        expiry_ms = max(-(-task.expiry_ms // tick_ms) * tick_ms, self._levels[0].current_ms)
        index = 0
        while expiry_ms >= self._levels[index].current_ms + self._levels[index].interval_ms:
            index += 1
            if index == len(self._levels):
                below = self._levels[-1]
                self._levels.append(_Level(below.interval_ms, self._size, below.current_ms))
        level = self._levels[index]
        position = expiry_ms // level.tick_ms
        bucket = level.buckets[position % self._size]
        bucket.tasks[task] = None
        task._bucket = bucket
        if bucket.expiry_ms == _NOT_QUEUED:
            bucket.expiry_ms = position * level.tick_ms
            heappush(self._heap, (bucket.expiry_ms, index, bucket))

    def _turn_to(self, now_ms: int) -> None:
        """Turn every level to `now_ms`. No bucket that holds something may begin before it."""
        for level in self._levels:
            current_ms = now_ms - now_ms % level.tick_ms
            if current_ms <= level.current_ms:
                return
            level.current_ms = current_ms
