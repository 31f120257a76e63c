r"""Brings a data directory back that was full, or could not be written or read, and says what goes on.

failed ---> can pass: try again every second ---> there is room: logs loaded again, partitions made that could not be
       \--> cannot:   offline until the restart
left out at the start: try again every second ---> it can be read: logs loaded, partitions served
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.directory_logs import DirectoryLogs

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""How long after a failure, and after each vain attempt, a directory is tried again."""


class DiskWatch:
    """Belongs to the event loop."""

    def __init__(
        self,
        logs: DirectoryLogs,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
        on_resumed: Callable[[], Awaitable[None]],
        *,
        name: str = "the data directory",
    ) -> None:
        """`on_resumed` is awaited when the directory takes writes again; `name` is what people know it by."""
        self._name = name
        self._logs = logs
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._on_resumed = on_resumed
        self._log = LogThrottle(logger, clock, lines_max=6, window_ms=60_000)
        self._is_waiting = False
        self._failed_ms = 0

    def start(self) -> None:
        """Try to load the directory if it was left out."""
        if not self._logs.is_loaded:
            self._begin()

    def failed(self, error: OSError) -> str:
        """The directory can no longer be written; returns what that means, for whoever is affected."""
        if not self._logs.failure_can_pass:
            message = f"{self._name} is offline: {error}; produce fails until a restart on a sound disk"
            logger.error("%s", message)
            return message
        message = f"{self._name} takes no writes: {error}; produce fails until there is room, reads go on"
        self._log.warning("%s", message)
        self._begin()
        return message

    def _begin(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._failed_ms = self._clock.monotonic_ms()
            self._schedule()

    def _schedule(self) -> None:
        self._timer.schedule(RETRY_MS, lambda: self._tasks.spawn(self._try(), f"resume {self._name}"))

    async def _try(self) -> None:
        if not self._logs.failure_can_pass:
            self._is_waiting = False
            return
        try:
            await self._logs.resume()
        except (OSError, ApiError) as error:
            logger.debug("%s is still offline: %s", self._name, error)
        if self._logs.failure is not None:
            self._schedule()
            return
        self._is_waiting = False
        took_s = (self._clock.monotonic_ms() - self._failed_ms) / 1000
        self._log.warning("%s takes writes again, after %.1f s", self._name, took_s)
        await self._on_resumed()
