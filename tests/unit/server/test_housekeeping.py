"""Work that fails again and again for one reason is said once."""

import asyncio
import logging
from pathlib import Path

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.housekeeping import Housekeeping
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

INTERVAL_MS = 1000
SETTINGS = {
    "log.retention.check.interval.ms": "100000000",
    "log.flush.offset.checkpoint.interval.ms": str(INTERVAL_MS),
    "log.flush.start.offset.checkpoint.interval.ms": "100000000",
    "replica.high.watermark.checkpoint.interval.ms": "100000000",
}


class Logs(LogManager):
    """Checkpoints fail with `error` while there is one; nothing else is done."""

    error: OSError | None = None
    checkpoints = 0
    flushes = 0

    async def checkpoint_recovery_points(self) -> None:
        self.checkpoints += 1
        if self.error is not None:
            raise self.error

    async def flush_due(self) -> int:
        self.flushes += 1
        return 0


def logs_of(directory: Path, timer: ManualTimer, tasks: Tasks) -> Logs:
    """The logs of a directory without any."""
    return Logs(directory, disk=OsDisk(), clock=timer.clock, timer=timer, tasks=tasks)


async def test_a_reason_is_said_once_until_it_is_another_or_came_back(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    timer, tasks = ManualTimer(ManualClock(0)), Tasks("test")
    logs = logs_of(tmp_path, timer, tasks)
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


async def test_logs_are_flushed_by_time_only_when_that_was_asked_for(tmp_path: Path):
    for settings, flushes in ((SETTINGS, 0), ({**SETTINGS, "log.flush.scheduler.interval.ms": "100"}, 3)):
        timer, tasks = ManualTimer(ManualClock(0)), Tasks("test")
        logs = logs_of(tmp_path, timer, tasks)
        housekeeping = Housekeeping(BrokerSettings(settings), logs, timer, tasks)
        housekeeping.start()
        for _ in range(3):
            timer.advance(100)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        housekeeping.stop()
        await tasks.close()
        assert logs.flushes == flushes
