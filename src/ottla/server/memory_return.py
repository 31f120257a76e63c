"""Gives memory back to the system after a peak of connections."""

from collections.abc import Callable
from typing import Final

from ottla.runtime.free_memory import FreeMemory
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

INTERVAL_MS: Final = 5_000


class MemoryReturn:
    """Looks at the load every few seconds. Belongs to the event loop, which a return holds up for some milliseconds."""

    def __init__(self, timer: Timer, load: Callable[[], int], memory: FreeMemory) -> None:
        """`load` counts what memory is spent on: open connections."""
        self._timer = timer
        self._load = load
        self._memory = memory
        self._task: TimerTask | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = self._timer.schedule(INTERVAL_MS, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _look(self) -> None:
        self._memory.look(self._load())
        self.start()
