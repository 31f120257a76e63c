r"""Brings a data directory back that was full, or could not be written or read, and says what goes on.

failed ---> can pass: try again every second ---> there is room: logs loaded again, partitions made that could not be
       \--> cannot:   offline until the restart
left out at the start: try again every second ---> it can be read: logs loaded, partitions served

Why an attempt failed is logged once: when it is the first, and when the reason is another one.
"""

import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.server.partition_manager import PartitionManager
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.log_directory import failure_text
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""How long after a failure, and after each vain attempt, a directory is tried again."""

_REMEDIES: Final = {
    errno.EFBIG: "files may be larger (`ulimit -f`)",
    errno.EROFS: "the file system is mounted read-write again",
    errno.EMFILE: "fewer files are open or more may be (`ulimit -n`)",
    errno.ENFILE: "fewer files are open or more may be (`fs.file-max`)",
}
"""What writes wait for, where it is not space."""


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
        self._last_reason: int | str = 0

    def start(self) -> None:
        """Try to load the directory if it was left out."""
        if not self._logs.is_loaded:
            self._begin()

    def failed(self, error: OSError) -> str:
        """The directory can no longer be written; returns what that means, for whoever is affected."""
        if not self._logs.failure_can_pass:
            message = f"{self._name} is offline: {error}; writes fail until the broker is restarted on a sound disk"
            logger.error("%s", message)
            return message
        until = _REMEDIES.get(error.errno or 0, "there is space")
        message = f"{self._name} is read-only: {error}; writes fail until {until}, reads go on"
        self._log.warning("%s", message)
        self._begin()
        return message

    def _begin(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._failed_ms = self._clock.monotonic_ms()
            self._last_reason = _reason(self._logs.failure)
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
            if _reason(error) != self._last_reason:
                self._last_reason = _reason(error)
                words = error.message if isinstance(error, ApiError) else failure_text(error)
                self._log.warning("%s is still offline: %s; retrying every second", self._name, words)
        if self._logs.failure is not None:
            self._schedule()
            return
        self._is_waiting = False
        took_s = (self._clock.monotonic_ms() - self._failed_ms) / 1000
        self._log.warning("%s is writable again, after %.1f s", self._name, took_s)
        await self._on_resumed()


class DiskWatches:
    """One for each data directory of a broker. Belongs to the event loop."""

    def __init__(
        self,
        environment: Environment,
        logs: LogManager,
        partitions: PartitionManager,
        on_failure: Callable[[], None],
    ) -> None:
        """`on_failure` is called when a directory has failed, after those who wait for it were told."""
        self._partitions = partitions
        self._on_failure = on_failure
        is_only = len(logs.directories) == 1
        self._watches = {
            directory: DiskWatch(
                directory,
                environment.clock,
                environment.timer,
                environment.tasks,
                partial(partitions.directory_is_back, directory),
                name="the data directory" if is_only else f"the data directory {directory.path}",
            )
            for directory in logs.directories
        }

    def start(self) -> None:
        """Hear of failures from now on, and try what was left out at the start."""
        for directory, watch in self._watches.items():
            directory.on_failure = partial(self._failed, directory)
            watch.start()

    def _failed(self, directory: DirectoryLogs, error: OSError) -> None:
        self._partitions.fail_all(self._watches[directory].failed(error), directory)
        self._on_failure()


def _reason(error: OSError | ApiError | None) -> int | str:
    """What tells one reason from another: the same one comes with other files and words at each attempt."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    return str(error)
