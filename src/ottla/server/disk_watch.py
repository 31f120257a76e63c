r"""Brings a data directory back that was full or could not be written, and says what goes on.

failed ---> can pass: try again every second ---> there is room: logs loaded again, partitions made that could not be
       \--> cannot:   offline until the restart
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""How long after a failure, and after each vain attempt, a directory is tried again."""


class DiskWatch:
    """Belongs to the event loop."""

    def __init__(
        self, logs: LogManager, clock: Clock, timer: Timer, tasks: Tasks, on_resumed: Callable[[], Awaitable[None]]
    ) -> None:
        """`on_resumed` is awaited when the directory takes writes again."""
        self._logs = logs
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._on_resumed = on_resumed
        self._log = LogThrottle(logger, clock, lines_max=6, window_ms=60_000)
        self._is_waiting = False
        self._failed_ms = 0

    def failed(self, error: OSError) -> str:
        """The directory can no longer be written; returns what that means, for whoever is affected."""
        if not self._logs.failure_can_pass:
            message = f"the data directory is offline: {error}; produce fails until a restart on a sound disk"
            logger.error("%s", message)
            return message
        message = f"the data directory takes no writes: {error}; produce fails until there is room, reads go on"
        self._log.warning("%s", message)
        if not self._is_waiting:
            self._is_waiting = True
            self._failed_ms = self._clock.monotonic_ms()
            self._schedule()
        return message

    def _schedule(self) -> None:
        self._timer.schedule(RETRY_MS, lambda: self._tasks.spawn(self._try(), "resume the data directory"))

    async def _try(self) -> None:
        if not self._logs.failure_can_pass:
            self._is_waiting = False
            return
        try:
            await self._logs.resume()
        except (OSError, ApiError) as error:
            logger.debug("the data directory is still offline: %s", error)
        if self._logs.failure is not None:
            self._schedule()
            return
        self._is_waiting = False
        took_s = (self._clock.monotonic_ms() - self._failed_ms) / 1000
        self._log.warning("the data directory takes writes again, after %.1f s", took_s)
        await self._on_resumed()
