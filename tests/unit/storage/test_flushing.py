"""What is flushed by count and by time when the broker acknowledges what is only written, as Kafka does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.runtime.rng import SeededRng
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_io import SYNC, WRITTEN
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, batch, opened

WRITTEN_IS_ENOUGH: dict[str, Any] = {"flush_before_ack": False}


async def written(directory: OpenDirectory, log: Log, count: int = 1) -> list[tuple[int, int]]:
    """Append one batch of `count` records without asking for a sync; returns what was reported of it."""
    directory.stages.clear()
    end_offset = directory.append(log, batch(count), sync=False).last_offset + 1
    done = asyncio.get_running_loop().create_future()
    log.on_progress = lambda log: done.set_result(None) if log.written_end_offset == end_offset else None
    await done
    log.on_progress = None
    return list(directory.stages)


async def test_the_append_that_reaches_flush_messages_is_reported_once_it_is_on_disk(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(flush_messages=5, **WRITTEN_IS_ENOUGH))
        reported = [await written(directory, log, count) for count in (2, 2, 1, 4, 1, 9)]
        assert reported == [[(stage, 0)] for stage in (WRITTEN, WRITTEN, SYNC, WRITTEN, SYNC, SYNC)]
        assert log.flushed_end_offset == 19


async def test_what_was_flushed_otherwise_does_not_count_again(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(flush_messages=3, **WRITTEN_IS_ENOUGH))
        assert await written(directory, log, 2) == [(WRITTEN, 0)]
        await log.flush()
        assert await written(directory, log, 2) == [(WRITTEN, 0)]
        assert log.flushed_end_offset == 2


async def test_without_flush_messages_nothing_is_flushed(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(**WRITTEN_IS_ENOUGH))
        for _ in range(20):
            assert await written(directory, log, 100) == [(WRITTEN, 0)]
        assert log.flushed_end_offset == 0


async def test_a_log_is_flushed_when_flush_ms_has_passed_since_the_last_time(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(flush_ms=1000, **WRITTEN_IS_ENOUGH))
        assert await directory.manager.flush_due() == 0
        await written(directory, log)
        directory.clock.advance(999)
        assert await directory.manager.flush_due() == 0
        directory.clock.advance(1)
        assert await directory.manager.flush_due() == 1
        assert log.flushed_end_offset == 1
        directory.clock.advance(1000)
        assert await directory.manager.flush_due() == 0
        await written(directory, log)
        assert await directory.manager.flush_due() == 1
        await written(directory, log)
        assert await directory.manager.flush_due() == 0


async def test_a_log_is_flushed_in_time_although_the_clock_went_back(tmp_path: Path):
    async with opened(tmp_path) as directory:
        directory.clock.set_now(10_000_000)
        log = await directory.log(LogConfig(flush_ms=1000, **WRITTEN_IS_ENOUGH))
        assert await directory.manager.flush_due() == 0
        await written(directory, log)
        directory.clock.set_now(10_000_000 - 3_600_000)
        assert await directory.manager.flush_due() == 1
        await written(directory, log)
        assert await directory.manager.flush_due() == 0
        directory.clock.advance(1000)
        assert await directory.manager.flush_due() == 1


@pytest.mark.parametrize("jitter_ms", [0, 400, 5000])
async def test_segments_are_closed_earlier_by_a_jitter_drawn_for_each(tmp_path: Path, jitter_ms: int):
    """The same draws by another generator of the same seed say when."""
    draws = SeededRng(7)
    async with opened(tmp_path, rng=SeededRng(7)) as directory:
        log = await directory.log(LogConfig(segment_ms=1000, segment_jitter_ms=jitter_ms))
        begun = NOW_MS
        for _ in range(5):
            age_max_ms = 1000 - int(draws.random() * min(jitter_ms, 1000))
            count = len(log.segments)
            await directory.append_all(log, [batch(timestamp=begun), batch(timestamp=begun + age_max_ms)])
            assert len(log.segments) == count
            begun += age_max_ms + 1
            await directory.append_all(log, [batch(timestamp=begun)])
            assert len(log.segments) == count + 1
