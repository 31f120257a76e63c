"""The timers of one shard, by key."""

from collections.abc import Callable, Hashable, Mapping

from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask


class ShardTimers:
    """At most one timer per key. Belongs to the event loop, like the `Timer` underneath."""

    __slots__ = ("_entries", "_on_due", "_timer")

    def __init__(self, timer: Timer, on_due: Callable[[Hashable], None]) -> None:
        self._timer = timer
        self._on_due = on_due
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        """How many timers are set."""
        return len(self._entries)

    def apply(self, changes: Mapping[Hashable, int | None]) -> None:
        """Set (a delay in milliseconds) or cancel (None) timers; a timer that is set again moves."""
        for key, delay_ms in changes.items():
            entry = self._entries.pop(key, None)
            if entry is not None:
                entry.task.cancel()
            if delay_ms is not None:
                entry = _Entry(self, key)
                entry.task = self._timer.schedule(delay_ms, entry.due)
                self._entries[key] = entry

    def move(self, changes: Mapping[Hashable, int | None]) -> None:
        """Of such changes those that set a timer anew which is set."""
        self.apply(
            {key: delay_ms for key, delay_ms in changes.items() if delay_ms is not None and key in self._entries}
        )

    def close(self) -> None:
        """Cancel them all."""
        for entry in self._entries.values():
            entry.task.cancel()
        self._entries.clear()

    def _due(self, entry: "_Entry") -> None:
        # Of timers that are due together, the first may have cancelled or moved the second.
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            self._on_due(entry.key)


class _Entry:
    __slots__ = ("_timers", "key", "task")

    task: TimerTask

    def __init__(self, timers: ShardTimers, key: Hashable) -> None:
        self._timers = timers
        self.key = key

    def due(self) -> None:
        self._timers._due(self)
