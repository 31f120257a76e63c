"""How much of the log is read for a delivery, and what of it is given."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.native import build_batch
from ottla.queues.log_reader import READ_BYTES_MIN, WINDOW_BYTES_MAX, LogReader
from ottla.queues.recent_reads import RecentReads
from ottla.queues.share_state import ShareKey
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.tasks import Tasks
from ottla.storage.log_config import LogConfig
from ottla.storage.log_read_result import LogReadResult

BATCHES, RECORDS, VALUE = 100, 10, b"x" * 10_000


def reader_of(fd: int, batch_bytes: int, tasks: Tasks) -> tuple[LogReader, list[tuple[int, int]]]:
    """A reader, and what it asks the log for."""
    asked: list[tuple[int, int]] = []

    def read(offset: int, max_bytes: int, **more: object) -> LogReadResult:
        asked.append((offset, max_bytes))
        first = offset // RECORDS
        count = min(BATCHES - first, max(1, max_bytes // batch_bytes))
        size = count * batch_bytes
        return LogReadResult((FileSlice(fd, first * batch_bytes, size, None),), size)

    end = BATCHES * RECORDS
    partition = SimpleNamespace(
        read=read, log=SimpleNamespace(config=LogConfig()), high_watermark=end, last_stable_offset=end
    )
    return LogReader(cast("Any", partition), ShareKey("g", UUID(int=1), 0), 0, RecentReads(), tasks), asked


async def given(fd: int, batch_bytes: int) -> None:
    tasks = Tasks()
    reader, asked = reader_of(fd, batch_bytes, tasks)

    async def offsets(offset: int, max_bytes: int, max_records: int) -> tuple[int, int]:
        found = await reader.read(offset, max_bytes, max_records, read_committed=False)
        return found.batches[0].base_offset, found.batches[-1].last_offset

    assert await offsets(0, 50_000_000, 500) == (0, 19), "nothing is known of the records yet"
    assert await offsets(15, 50_000_000, 500) == (10, 19)
    assert asked == [(0, READ_BYTES_MIN)], "what was read is kept"
    assert await offsets(20, 50_000_000, 50) == (20, 69)
    assert await offsets(70, 2 * batch_bytes, 500) == (70, 89), "no more than is asked for"
    assert await offsets(70, 1, 500) == (70, 79), "but for the first batch"
    assert [offset for offset, _ in asked] == [0, 20, 70]
    assert asked[1][1] == 50 * batch_bytes // RECORDS
    await tasks.close()


async def windows(fd: int, batch_bytes: int) -> None:
    tasks = Tasks()
    reader, asked = reader_of(fd, batch_bytes, tasks)

    async def offsets(offset: int, records: int) -> tuple[int, int]:
        found = await reader.read_window(offset, records, read_committed=False)
        return found.batches[0].base_offset, found.batches[-1].last_offset

    assert await offsets(0, 100) == (0, 19), "nothing is known of the records yet"
    assert await offsets(0, 100) == (0, 149), "half as many more"
    assert await offsets(45, 100) == (40, 149)
    assert len(asked) == 2, "all of the hundred were read"
    assert await offsets(51, 100) == (50, 199), "the last of the hundred was not"
    in_window = WINDOW_BYTES_MAX // batch_bytes * RECORDS
    assert (await offsets(0, 1_000))[1] == in_window - 1, "as much as the limit allows"
    assert (await offsets(10, 1_000))[1] == in_window + 9
    assert len(asked) == 4, "what is within the limit was read"
    end = BATCHES * RECORDS
    assert await offsets(end - 50, 100) == (end - 50, end - 1)
    assert await offsets(end - 10, 100) == (end - 10, end - 1), "there is no more"
    assert len(asked) == 5
    await tasks.close()


def run_over_log(tmp_path: Path, check: Callable[[int, int], Coroutine[None, None, None]]) -> None:
    batches = [bytes(build_batch([(0, None, VALUE, ())] * RECORDS, base_offset=at * RECORDS)) for at in range(BATCHES)]
    (tmp_path / "log").write_bytes(b"".join(batches))
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    asyncio.run(check(fd, len(batches[0])))
    os.close(fd)


def test_about_as_much_is_read_as_is_delivered_at_once(tmp_path: Path) -> None:
    run_over_log(tmp_path, given)


def test_records_are_picked_out_of_a_window_that_is_read_anew_when_it_ends_too_early(tmp_path: Path) -> None:
    run_over_log(tmp_path, windows)
