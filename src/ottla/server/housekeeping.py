"""What a broker does now and then for its logs: checkpoints and retention."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

_NEVER_MS: Final = 1 << 42
"""An interval of more than a century: Kafka's way to say that something is not done."""

Work = Callable[[], Awaitable[object]]


class Housekeeping:
    """Runs each kind of work at its interval, never two of one kind at once. Belongs to the event loop."""

    def __init__(self, settings: BrokerSettings, logs: LogManager, timer: Timer, tasks: Tasks) -> None:
        self._timer = timer
        self._tasks = tasks
        self._scheduled: dict[str, TimerTask] = {}
        self._said: dict[str, str] = {}
        self._work: dict[str, tuple[int, Work]] = {
            "retention": (settings.integer("log.retention.check.interval.ms"), logs.apply_retention),
            "flush": (settings.integer("log.flush.scheduler.interval.ms"), logs.flush_due),
            "checkpoint recovery points": (
                settings.integer("log.flush.offset.checkpoint.interval.ms"),
                logs.checkpoint_recovery_points,
            ),
            "checkpoint log starts": (
                settings.integer("log.flush.start.offset.checkpoint.interval.ms"),
                logs.checkpoint_log_starts,
            ),
            "checkpoint high watermarks": (
                settings.integer("replica.high.watermark.checkpoint.interval.ms"),
                logs.checkpoint_high_watermarks,
            ),
        }

    def add(self, name: str, interval_ms: int, work: Work) -> None:
        """One more kind of work; before `start`."""
        self._work[name] = interval_ms, work

    def start(self) -> None:
        """Begin; the first of each kind comes after its interval."""
        for name, (interval_ms, _) in self._work.items():
            if interval_ms < _NEVER_MS:
                self._schedule(name)

    def stop(self) -> None:
        """Begin nothing new."""
        for task in self._scheduled.values():
            task.cancel()
        self._scheduled.clear()

    def _schedule(self, name: str) -> None:
        interval_ms, _ = self._work[name]
        self._scheduled[name] = self._timer.schedule(
            interval_ms, lambda: self._tasks.spawn(self._run(name), f"housekeeping: {name}")
        )

    async def _run(self, name: str) -> None:
        try:
            await self._work[name][1]()
            self._said.pop(name, None)
        except OSError as error:
            if self._said.get(name) != str(error):
                self._said[name] = str(error)
                logger.warning("could not %s: %s; retrying, this message is not repeated", name, error)
        finally:
            if name in self._scheduled:
                self._schedule(name)
