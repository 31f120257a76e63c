"""Work that fails again and again for one reason is said once."""

import asyncio
import logging

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.housekeeping import Housekeeping
from ottla.settings.broker_settings import BrokerSettings

INTERVAL_MS = 1000
SETTINGS = {
    "log.retention.check.interval.ms": "100000000",
    "log.flush.offset.checkpoint.interval.ms": str(INTERVAL_MS),
    "log.flush.start.offset.checkpoint.interval.ms": "100000000",
    "replica.high.watermark.checkpoint.interval.ms": "100000000",
}


class Logs:
    """Checkpoints fail with `error` while there is one."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.checkpoints = 0
        self.flushes = 0

    async def checkpoint_recovery_points(self) -> None:
        self.checkpoints += 1
        if self.error is not None:
            raise self.error

    async def flush_due(self) -> None:
        self.flushes += 1

    async def apply_retention(self) -> None: ...

    async def checkpoint_log_starts(self) -> None: ...

    async def checkpoint_high_watermarks(self) -> None: ...


async def test_a_reason_is_said_once_until_it_is_another_or_came_back(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    timer, tasks, logs = ManualTimer(ManualClock(0)), Tasks("test"), Logs()
    housekeeping = Housekeeping(BrokerSettings(SETTINGS), logs, timer, tasks)
    housekeeping.start()
    full, broken = OSError(28, "no room"), OSError(5, "broken")
    for error in (full, full, broken, broken, None, broken):
        logs.error = error
        timer.advance(INTERVAL_MS)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    housekeeping.stop()
    await tasks.close()
    assert logs.checkpoints == 6
    said = [record.getMessage() for record in caplog.records]
    assert [("no room" in line, "broken" in line) for line in said] == [(True, False), (False, True), (False, True)]


async def test_logs_are_flushed_by_time_only_when_that_was_asked_for():
    for settings, flushes in ((SETTINGS, 0), ({**SETTINGS, "log.flush.scheduler.interval.ms": "100"}, 3)):
        timer, tasks, logs = ManualTimer(ManualClock(0)), Tasks("test"), Logs()
        housekeeping = Housekeeping(BrokerSettings(settings), logs, timer, tasks)
        housekeeping.start()
        for _ in range(3):
            timer.advance(100)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        housekeeping.stop()
        await tasks.close()
        assert logs.flushes == flushes
